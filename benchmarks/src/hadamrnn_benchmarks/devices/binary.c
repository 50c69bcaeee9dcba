/* For comparison: one step with a dense binary recurrent matrix, HIDDEN^2 additions, as the paper counts.
 * W is HIDDEN^2 bits in flash; input, signs and read-out are left out, so this favours the dense product. */
#include <stdint.h>
#include <string.h>

#ifdef __AVR__
#include <avr/pgmspace.h>
#define FLASH PROGMEM
#define BYTE(p) pgm_read_byte(p)
#else
#define FLASH
#define BYTE(p) (*(p))
#endif

extern int16_t h[HIDDEN];
void step(int16_t x);

static const uint8_t signs[HIDDEN * (uint32_t)HIDDEN / 8] FLASH = {0x5A, 0x3C};

void step(int16_t x)
{
    int16_t next[HIDDEN];
    const uint8_t *row = signs;
    for (uint_fast16_t i = 0; i < HIDDEN; i++) {
        int32_t sum = x;
        for (uint_fast16_t j = 0; j < HIDDEN; j += 8) {
            const uint_fast8_t bits = BYTE(row++);
#define ADD(k) sum += bits & (1u << (k)) ? -(int32_t)h[j + (k)] : h[j + (k)]
            ADD(0);
            ADD(1);
            ADD(2);
            ADD(3);
            ADD(4);
            ADD(5);
            ADD(6);
            ADD(7);
        }
        sum = (sum + 16) >> 5;
        if ((uint32_t)sum + 2048u > 4095u)
            sum = sum < 0 ? -2048 : 2047;
        next[i] = (int16_t)sum;
    }
    memcpy(h, next, sizeof next);
}
