/* Counts one step of a comparison cell; prints `step calibration`. */
#include <stdint.h>

#include "counter.h"

int16_t h[HIDDEN];
void step(int16_t x);

int main(void)
{
    uint32_t start, empty, ticks;
    counter_start();
    start = counter();
    empty = since(start);
    step(3);
    start = counter();
    step(17);
    ticks = since(start) - empty;
    print(ticks);
    print(calibrate());
    finish();
    return 0;
}
