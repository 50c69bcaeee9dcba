/* The read-out of a block of steps: three small products, each kept in registers over a tile.
 *
 * Rows of V (output_size) and of the states (steps) are padded with zeros to `width`, a multiple of
 * TILE vectors, so that no loop has a tail. With `sigma` V reads ReLU(h).
 */
#define TILE 4

/* The input of V for a state. */
INLINE vec NAME(activated)(int sigma, vec state) { return sigma ? NAME(keep_positive)(state, state) : state; }

/* logits[t][o] = bias[o] + sum_k V[o][k] activated(states[t][k]) for `outs` outputs and `steps` (1 or TILE) steps, constants. */
INLINE void NAME(logits_tile)(int outs, int steps, int sigma, int64_t width, const REAL *weight, const REAL *bias,
                              const REAL *states, REAL *logits, int64_t output_size)
{
    vec sums[3][TILE] = {{{0}}};
    for (int64_t k = 0; k < width; k += LANES) {
        vec state[TILE];
        UNROLL for (int t = 0; t < steps; t++) state[t] = NAME(activated)(sigma, load(states + t * width + k));
        UNROLL for (int o = 0; o < outs; o++) {
            vec w = load(weight + o * width + k);
            UNROLL for (int t = 0; t < steps; t++) sums[o][t] += w * state[t];
        }
    }
    UNROLL for (int o = 0; o < outs; o++) {
        REAL logit[TILE];
        if (steps == TILE) NAME(sum_lanes_of_four)(sums[o], logit);
        else logit[0] = NAME(sum_lanes)(sums[o][0]);
        UNROLL for (int t = 0; t < steps; t++) logits[t * output_size + o] = logit[t] + (bias ? bias[o] : 0);
    }
}

NOINLINE void NAME(readout)(int64_t steps, int64_t outputs, int sigma, int64_t width, const REAL *weight,
                            const REAL *bias, const REAL *states, REAL *logits)
{
    for (int64_t o = 0; o < outputs;) {
        int64_t outs = outputs - o >= 3 ? 3 : 1;
        const REAL *w = weight + o * width, *b = bias ? bias + o : NULL;
        for (int64_t t = 0; t < steps;) {
            const REAL *state = states + t * width;
            REAL *logit = logits + t * outputs + o;
            if (steps - t >= TILE) {
                if (outs == 3) NAME(logits_tile)(3, TILE, sigma, width, w, b, state, logit, outputs);
                else NAME(logits_tile)(1, TILE, sigma, width, w, b, state, logit, outputs);
                t += TILE;
            } else {
                if (outs == 3) NAME(logits_tile)(3, 1, sigma, width, w, b, state, logit, outputs);
                else NAME(logits_tile)(1, 1, sigma, width, w, b, state, logit, outputs);
                t++;
            }
        }
        o += outs;
    }
}

/* grad_states[t][k] = sum_o grad_logits[t][o] V[o][k] for `steps` steps, a constant; if `states` are given,
 * only where they are positive. */
INLINE void NAME(grad_states_tile)(int steps, int64_t outputs, int64_t width, const REAL *weight,
                                   const REAL *grad_logits, const REAL *states, REAL *grad_states)
{
    for (int64_t k = 0; k < width; k += 2 * LANES) {
        vec low[TILE] = {{0}}, high[TILE] = {{0}};
        for (int64_t o = 0; o < outputs; o++) {
            vec w0 = load(weight + o * width + k), w1 = load(weight + o * width + k + LANES);
            UNROLL for (int t = 0; t < steps; t++) {
                REAL grad = grad_logits[t * outputs + o];
                low[t] += w0 * grad;
                high[t] += w1 * grad;
            }
        }
        UNROLL for (int t = 0; t < steps; t++) {
            int64_t at = t * width + k;
            store(grad_states + at, states ? NAME(keep_positive)(load(states + at), low[t]) : low[t]);
            store(grad_states + at + LANES, states ? NAME(keep_positive)(load(states + at + LANES), high[t]) : high[t]);
        }
    }
}

NOINLINE void NAME(readout_grad_states)(int64_t steps, int64_t outputs, int64_t width, const REAL *weight,
                                        const REAL *grad_logits, const REAL *states, REAL *grad_states)
{
    int64_t t = 0;
    for (; t + TILE <= steps; t += TILE)
        NAME(grad_states_tile)(TILE, outputs, width, weight, grad_logits + t * outputs,
                               states ? states + t * width : NULL, grad_states + t * width);
    for (; t < steps; t++)
        NAME(grad_states_tile)(1, outputs, width, weight, grad_logits + t * outputs,
                               states ? states + t * width : NULL, grad_states + t * width);
}

/* grad_weight[o][k] += sum_t grad_logits[t][o] activated(states[t][k]) for `outs` outputs, a constant. */
INLINE void NAME(grad_weight_tile)(int outs, int64_t steps, int64_t outputs, int sigma, int64_t width,
                                   const REAL *states, const REAL *grad_logits, REAL *grad_weight)
{
    for (int64_t k = 0; k < width; k += TILE * LANES) {
        vec sums[3][TILE];
        UNROLL for (int o = 0; o < outs; o++) {
            UNROLL for (int j = 0; j < TILE; j++) sums[o][j] = load(grad_weight + o * width + k + j * LANES);
        }
        for (int64_t t = 0; t < steps; t++) {
            vec state[TILE];
            UNROLL for (int j = 0; j < TILE; j++) state[j] = NAME(activated)(sigma, load(states + t * width + k + j * LANES));
            UNROLL for (int o = 0; o < outs; o++) {
                REAL grad = grad_logits[t * outputs + o];
                UNROLL for (int j = 0; j < TILE; j++) sums[o][j] += state[j] * grad;
            }
        }
        UNROLL for (int o = 0; o < outs; o++) {
            UNROLL for (int j = 0; j < TILE; j++) store(grad_weight + o * width + k + j * LANES, sums[o][j]);
        }
    }
}

NOINLINE void NAME(readout_grad_weight)(int64_t steps, int64_t outputs, int sigma, int64_t width, const REAL *states,
                                        const REAL *grad_logits, REAL *grad_weight)
{
    int64_t o = 0;
    for (; o + 3 <= outputs; o += 3)
        NAME(grad_weight_tile)(3, steps, outputs, sigma, width, states, grad_logits + o, grad_weight + o * width);
    for (; o < outputs; o++)
        NAME(grad_weight_tile)(1, steps, outputs, sigma, width, states, grad_logits + o, grad_weight + o * width);
}

#undef TILE
