/* Read-outs of every step of a recurrence, and their gradient, by tiles of LANES rows.
 *
 *     mean      1/T sum_t ReLU(h_t - theta)
 *     positive  1/T sum_t [h_t > theta]
 *     max       max_t h_t
 *
 * The gradient of the mean needs no state, only the bits [h_t > theta], which are stored, one bit per unit.
 * `positive` is differentiated as a ramp of slope 1/2 for |h_t - theta| <= 1, which needs other bits. For the
 * maximum its step is stored. Only ReLU and the gradients of the signs need states, which are recomputed from a
 * checkpoint. Start reading at `pool_forward` and `pool_backward`.
 */
#define WORD_BITS ((int64_t)(8 * sizeof(REAL)))

INLINE int64_t NAME(word_count)(const ScanArgs *args) { return (args->hidden + WORD_BITS - 1) / WORD_BITS; }

static int64_t NAME(pool_lay_out)(const ScanArgs *args, NAME(TileScratch) *scratch, int backward, REAL *base)
{
    int64_t used = 0, hidden = args->hidden, tile = hidden * LANES, steps = scratch->steps;
    int64_t rows = args->input_kind == INPUT_ROWS, size = rows ? hidden : args->input_size;
    int64_t sums = args->num_thresholds * tile, has_mean = args->mean || args->grad_mean;
    int64_t marks = args->segment * args->num_thresholds * NAME(word_count)(args) * LANES;
    int64_t has_positive = args->positive || args->grad_positive;
    for (int up = 0; up < 2; up++) scratch->post[up] = NAME(take)(base, &used, hidden);
    scratch->plan.work = NAME(take)(base, &used, 2 * tile);
    scratch->x = NAME(take)(base, &used, steps * size * LANES);
    scratch->state = NAME(take)(base, &used, tile);
    scratch->work = NAME(take)(base, &used, tile);
    scratch->segment = NAME(take)(base, &used, backward && args->replay ? (args->segment + 1) * tile : 0);
    scratch->adjoints = NAME(take)(base, &used, backward ? steps * tile : 0);
    scratch->mean = NAME(take)(base, &used, has_mean ? sums : 0);
    scratch->positive = NAME(take)(base, &used, has_positive ? sums : 0);
    scratch->mean_bits = (INTEGER *)NAME(take)(base, &used, has_mean && !args->mean_bits ? marks : 0);
    scratch->positive_bits = (INTEGER *)NAME(take)(base, &used, has_positive && !args->positive_bits ? marks : 0);
    scratch->most = NAME(take)(base, &used, args->max || args->grad_max ? tile : 0);
    scratch->grad_weight = NAME(take)(base, &used, args->grad_weight ? size * tile : 0);
    scratch->grad_bias = NAME(take)(base, &used, args->grad_bias ? tile : 0);
    scratch->grad_signs = NAME(take)(base, &used, args->grad_signs ? tile : 0);
    return used;
}

static int NAME(pool_prepare)(const ScanArgs *args, int backward, NAME(TileScratch) *scratch)
{
    memset(scratch, 0, sizeof *scratch);
    scratch->steps = NAME(block_steps)(args->hidden);
    scratch->input_size = args->input_kind == INPUT_ROWS ? -1 : args->input_size;
    size_t bytes = (size_t)NAME(pool_lay_out)(args, scratch, backward, NULL) * sizeof(REAL) + 64;
    scratch->memory = calloc(1, bytes);
    if (!scratch->memory) return STATUS_NO_MEMORY;
    NAME(pool_lay_out)(args, scratch, backward, (REAL *)(((uintptr_t)scratch->memory + 63) & ~(uintptr_t)63));
    NAME(make_plan)(&scratch->plan, args, LANES);
    scratch->columns = args->factors_transposed;
    scratch->rows = args->factors;
    scratch->share = NAME(scale_signs)(args, scratch->post[0], scratch->post[1]);
    return STATUS_OK;
}

/* The bits of step t and threshold k: (words, LANES), a word for WORD_BITS units. They lie in `kept` for all steps
 * or, without it, in `own` for the steps of a segment. */
INLINE INTEGER *NAME(words_at)(const ScanArgs *args, void *kept, INTEGER *own, int64_t tile, int64_t t, int64_t k)
{
    int64_t step = args->num_thresholds * NAME(word_count)(args) * LANES, at = k * NAME(word_count)(args) * LANES;
    return kept ? (INTEGER *)kept + (tile * args->time + t) * step + at : own + t % args->segment * step + at;
}

INLINE REAL *NAME(tile_checkpoint)(const ScanArgs *args, int64_t tile, int64_t index)
{
    int64_t count = (args->time + args->segment - 1) / args->segment - 1;
    return (REAL *)args->checkpoints + (tile * count + index) * args->hidden * LANES;
}

/* sum += ReLU(h - theta), and the bits [h > theta]. */
static void NAME(pool_mean)(int64_t hidden, const REAL *restrict h, const REAL *restrict theta, bits alive,
                            REAL *restrict sum, INTEGER *restrict words)
{
    for (int64_t first = 0; first < hidden; first += WORD_BITS, words += LANES) {
        bits word = {0}, bit = (bits){0} + 1;
        for (int64_t i = first; i < first + WORD_BITS && i < hidden; i++, bit = NAME(next_bit)(bit)) {
            vec above = load(h + i * LANES) - theta[i];
            bits on = (bits)(above > 0) & alive;
            store(sum + i * LANES, load(sum + i * LANES) + NAME(only)(on, above));
            word |= on & bit;
        }
        NAME(store_bits)(words, word);
    }
}

/* sum += [h > theta], and the bits [|h - theta| <= 1]. */
static void NAME(pool_positive)(int64_t hidden, const REAL *restrict h, const REAL *restrict theta, bits alive,
                                REAL *restrict sum, INTEGER *restrict words)
{
    const vec one = (vec){0} + 1;
    for (int64_t first = 0; first < hidden; first += WORD_BITS, words += LANES) {
        bits word = {0}, bit = (bits){0} + 1;
        for (int64_t i = first; i < first + WORD_BITS && i < hidden; i++, bit = NAME(next_bit)(bit)) {
            vec above = load(h + i * LANES) - theta[i];
            store(sum + i * LANES, load(sum + i * LANES) + NAME(only)((bits)(above > 0) & alive, one));
            word |= (bits)(above <= 1) & (bits)(above >= -1) & alive & bit;
        }
        NAME(store_bits)(words, word);
    }
}

/* most = max(most, h), and the step where it was reached first. */
static void NAME(pool_max)(int64_t hidden, const REAL *restrict h, bits alive, INTEGER t, REAL *restrict most,
                           INTEGER *restrict steps)
{
    for (int64_t i = 0; i < hidden * LANES; i += LANES) {
        bits better = (bits)(load(h + i) > load(most + i)) & alive;
        store(most + i, NAME(select)(better, load(h + i), load(most + i)));
        NAME(store_bits)(steps + i, (NAME(load_bits)(steps + i) & ~better) | (better & t));
    }
}

/* Add h_t to the pools. */
static void NAME(pool_step)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile, int64_t t)
{
    int64_t hidden = args->hidden, size = hidden * LANES;
    const REAL *theta = args->thresholds, *h = scratch->state;
    bits alive = (bits)(tile->lengths > (INTEGER)t);
    for (int64_t k = 0; k < args->num_thresholds; k++, theta += hidden) {
        if (args->mean)
            NAME(pool_mean)(hidden, h, theta, alive, scratch->mean + k * size,
                            NAME(words_at)(args, args->mean_bits, scratch->mean_bits, tile->index, t, k));
        if (args->positive)
            NAME(pool_positive)(hidden, h, theta, alive, scratch->positive + k * size,
                                NAME(words_at)(args, args->positive_bits, scratch->positive_bits, tile->index, t, k));
    }
    if (args->max)
        NAME(pool_max)(hidden, h, alive, (INTEGER)t, scratch->most, (INTEGER *)args->max_steps + tile->index * size);
}

/* v, or the last state if that is NaN: a state that becomes NaN stays NaN, which no pool would show. */
INLINE vec NAME(or_nan)(const NAME(Tile) *tile, vec last, vec v)
{
    return NAME(select)((bits)(last != last) & (bits)(tile->lengths > 0), last, v);
}

/* Divide by the lengths and write the features, row by row. */
static void NAME(store_pools)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile)
{
    int64_t hidden = args->hidden, size = args->num_thresholds * hidden;
    REAL *mean = args->mean, *positive = args->positive, *most = args->max;
    for (int64_t i = 0; i < size * LANES; i += LANES) {
        vec last = load(scratch->state + i % (hidden * LANES));
        if (mean) store(scratch->mean + i, NAME(or_nan)(tile, last, load(scratch->mean + i) * tile->share));
        if (positive) store(scratch->positive + i, NAME(or_nan)(tile, last, load(scratch->positive + i) * tile->share));
    }
    for (int64_t i = 0; most && i < hidden * LANES; i += LANES) {
        vec found = NAME(only)((bits)(tile->lengths > 0), load(scratch->most + i));
        store(scratch->most + i, NAME(or_nan)(tile, load(scratch->state + i), found));
    }
    if (mean) NAME(tile_to_rows)(tile, size, size, scratch->mean, mean + tile->first * size);
    if (positive) NAME(tile_to_rows)(tile, size, size, scratch->positive, positive + tile->first * size);
    if (most) NAME(tile_to_rows)(tile, hidden, hidden, scratch->most, most + tile->first * hidden);
}

static void NAME(pool_tile)(const ScanArgs *args, const NAME(TileScratch) *scratch, int64_t index)
{
    NAME(Tile) tile = NAME(tile_at)(args, index);
    int64_t hidden = args->hidden, first = tile.first * hidden, size = args->num_thresholds * hidden * LANES;
    for (int64_t i = 0; i < size; i++) {
        if (args->mean) scratch->mean[i] = 0;
        if (args->positive) scratch->positive[i] = 0;
    }
    for (int64_t i = 0; args->max && i < hidden * LANES; i++) scratch->most[i] = -(REAL)INFINITY;
    memset(scratch->state, 0, (size_t)(hidden * LANES) * sizeof(REAL));
    for (int64_t t0 = 0; t0 < tile.longest; t0 += scratch->steps) {
        int64_t end = NAME(least)(t0 + scratch->steps, tile.longest, tile.longest);
        NAME(load_inputs)(args, scratch, &tile, t0, end - t0);
        for (int64_t t = t0; t < end; t++) {
            if (args->checkpoints && t > 0 && t % args->segment == 0)
                memcpy(NAME(tile_checkpoint)(args, index, t / args->segment - 1), scratch->state, (size_t)(hidden * LANES) * sizeof(REAL));
            NAME(tile_step)(args, scratch, &tile, t, NAME(input_of)(args, scratch, t - t0), scratch->state, scratch->state);
            NAME(pool_step)(args, scratch, &tile, t);
        }
    }
    NAME(tile_to_rows)(&tile, hidden, hidden, scratch->state, (REAL *)args->last + first);
    NAME(store_pools)(args, scratch, &tile);
}

int NAME(tile_rows)(void) { return LANES; }

int NAME(pool_forward)(const ScanArgs *args, int64_t slice)
{
    NAME(TileScratch) scratch;
    int status = NAME(pool_prepare)(args, 0, &scratch);
    if (status) return status;
    int64_t tiles = (args->batch + LANES - 1) / LANES, slices = args->num_slices;
    for (int64_t tile = slice * tiles / slices; tile < (slice + 1) * tiles / slices; tile++)
        NAME(pool_tile)(args, &scratch, tile);
    free(scratch.memory);
    return STATUS_OK;
}
