/* Counts the vectors of 16-bit numbers, VECTOR_BYTES each, that this core adds in a second: butterflies in registers. */
#include <stdint.h>
#include <time.h>
typedef uint16_t vector __attribute__((vector_size(VECTOR_BYTES)));
static volatile uint16_t sink;
double additions_per_second(long turns);
double additions_per_second(long turns)
{
    vector a[8];
    struct timespec start, end;
    for (int i = 0; i < 8; i++) a[i] = (vector){0} + (uint16_t)(i + turns);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (long t = 0; t < turns; t++)
        for (int stride = 1; stride < 8; stride *= 2)
            for (int i = 0; i < 8; i++)
                if (!(i & stride)) {
                    vector difference = a[i] - a[i + stride];
                    a[i] += a[i + stride];
                    a[i + stride] = difference;
                }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    for (int i = 0; i < 8; i++) sink = a[i][0];
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    return 24.0 * (double)turns / seconds;
}
