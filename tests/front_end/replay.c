/* Runs the front ends described on standard input and prints their codes, one line for each.
 * A case: frame hop log2_size bands is_mel noise_shift, the number of bytes of the tables, where the five begin, the bytes, the
 * number of samples, the samples. */
#include <stdio.h>
#include <stdlib.h>
#define HADAMRNN_SPECIALISED
#include "hadamrnn_front_end.h"

static long number(void)
{
    long value = 0;
    if (scanf("%ld", &value) != 1) {
        exit(0);
    }
    return value;
}

int main(void)
{
    for (;;) {
        hadamrnn_front_end f;
        static uint8_t HADAMRNN_ALIGNED tables[8192];
        static int16_t samples[1024], work[1024];
        static int32_t noise[64], codes[64];
        hadamrnn_signal signal = {samples, work, noise, 0, 0};
        f.frame = (uint16_t)number();
        f.hop = (uint16_t)number();
        f.log2_size = (uint8_t)number();
        f.bands = (uint8_t)number();
        f.is_mel = (uint8_t)number();
        f.noise_shift = (uint8_t)number();
        const long size = number();
        f.window = &tables[number()];
        f.cosines = &tables[number()];
        f.edges = &tables[number()];
        f.weights = &tables[number()];
        f.log2 = &tables[number()];
        for (long i = 0; i < size; i++) {
            tables[i] = (uint8_t)number();
        }
        hadamrnn_signal_init(&signal);
        for (long left = number(); left > 0; left--) {
            if (hadamrnn_push_sample(&f, &signal, (int16_t)number(), codes)) {
                for (unsigned j = 0; j < f.bands; j++) {
                    printf("%ld ", (long)codes[j]);
                }
            }
        }
        printf("\n");
    }
}
