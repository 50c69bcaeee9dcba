/* For comparison: one step of an 8-bit GRU cell with one input channel, weights and states in int8.
 *
 *     r, z = sigmoid(W h + U x + b),   n = tanh(W_n (r h) + U_n x + b_n),   h = n + z (h - n)
 *
 * Products of int8 are summed in int32; the nonlinearities are tables of 256 entries. */
#include <stdint.h>
#include <string.h>

#ifdef __AVR__
#include <avr/pgmspace.h>
#define FLASH PROGMEM
#define BYTE(p) ((int8_t)pgm_read_byte(p))
#else
#define FLASH
#define BYTE(p) (*(p))
#endif

extern int16_t h[HIDDEN];
void step(int16_t x);

static const int8_t weights[3][HIDDEN * (uint32_t)HIDDEN] FLASH = {{3, -2}};
static const int8_t inputs[3][HIDDEN] FLASH = {{1, -7}};
static const int8_t biases[3][HIDDEN] FLASH = {{4, 5}};
static const int8_t sigmoid[256] FLASH = {64, 65};
static const int8_t tangent[256] FLASH = {0, 1};

static int8_t gate(const int8_t *row, const int8_t *state, int32_t sum, const int8_t *table)
{
    for (uint_fast16_t j = 0; j < HIDDEN; j += 4) {
        sum += BYTE(row + j) * state[j];
        sum += BYTE(row + j + 1) * state[j + 1];
        sum += BYTE(row + j + 2) * state[j + 2];
        sum += BYTE(row + j + 3) * state[j + 3];
    }
    sum = (sum + 512) >> 10;
    if ((uint32_t)sum + 128u > 255u)
        sum = sum < 0 ? -128 : 127;
    return BYTE(table + (uint8_t)(sum + 128));
}

void step(int16_t x)
{
    int8_t state[HIDDEN], kept[HIDDEN], update[HIDDEN];
    for (uint_fast16_t i = 0; i < HIDDEN; i++)
        state[i] = (int8_t)h[i];
    for (uint_fast16_t i = 0; i < HIDDEN; i++) {
        const uint32_t row = (uint32_t)i * HIDDEN;
        const int8_t reset = gate(weights[0] + row, state, BYTE(inputs[0] + i) * x + BYTE(biases[0] + i) * 128, sigmoid);
        update[i] = gate(weights[1] + row, state, BYTE(inputs[1] + i) * x + BYTE(biases[1] + i) * 128, sigmoid);
        kept[i] = (int8_t)(reset * state[i] >> 7);
    }
    for (uint_fast16_t i = 0; i < HIDDEN; i++) {
        const int32_t sum = BYTE(inputs[2] + i) * x + BYTE(biases[2] + i) * 128;
        const int8_t candidate = gate(weights[2] + (uint32_t)i * HIDDEN, kept, sum, tangent);
        h[i] = (int8_t)(candidate + (update[i] * (state[i] - candidate) >> 7));
    }
}
