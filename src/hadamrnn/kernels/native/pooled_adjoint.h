/* The backward pass of the pooled read-outs: a_t = W' f'(h_{t+1}) a_{t+1} + dL/dh_t, by tiles. */

/* adjoint += gradient where the bit of the step is set. */
static void NAME(add_marked)(int64_t hidden, const REAL *restrict gradient, const INTEGER *restrict words,
                             REAL *restrict adjoint)
{
    for (int64_t first = 0; first < hidden; first += WORD_BITS, words += LANES) {
        bits word = NAME(load_bits)(words), bit = (bits){0} + 1;
        for (int64_t i = first; i < first + WORD_BITS && i < hidden; i++, bit = NAME(next_bit)(bit)) {
            bits on = (bits)((word & bit) != 0);
            store(adjoint + i * LANES, load(adjoint + i * LANES) + NAME(only)(on, load(gradient + i * LANES)));
        }
    }
}

/* scratch->state += the gradient of the pools with respect to h_t. */
static void NAME(add_pool_gradients)(const ScanArgs *args, const NAME(TileScratch) *scratch, int64_t tile, int64_t t)
{
    int64_t hidden = args->hidden, size = hidden * LANES;
    REAL *adjoint = scratch->state;
    for (int64_t k = 0; k < args->num_thresholds; k++) {
        if (args->grad_mean)
            NAME(add_marked)(hidden, scratch->mean + k * size,
                             NAME(words_at)(args, args->mean_bits, scratch->mean_bits, tile, t, k), adjoint);
        if (args->grad_positive)
            NAME(add_marked)(hidden, scratch->positive + k * size,
                             NAME(words_at)(args, args->positive_bits, scratch->positive_bits, tile, t, k), adjoint);
    }
    const INTEGER *steps = (const INTEGER *)args->max_steps + tile * size;
    for (int64_t i = 0; args->grad_max && i < size; i += LANES) {
        bits here = (bits)(NAME(load_bits)(steps + i) == (INTEGER)t);
        store(adjoint + i, load(adjoint + i) + NAME(only)(here, load(scratch->most + i)));
    }
}

/* Write a_t of every unit to `adjoint`, zero for rows that have ended, and u / sqrt(b) * a_t to `scaled`.
 * `after` is h_t, ReLU only. */
static void NAME(scale_adjoint)(const ScanArgs *args, bits alive, const REAL *state, const REAL *after, const REAL *post,
                                REAL rest, REAL *adjoint, REAL *scaled)
{
    const int64_t hidden = args->hidden, relu = args->relu;
    for (int64_t i = 0; i < hidden; i++) {
        vec a = NAME(only)(alive, load(state + i * LANES));
        if (relu) a = NAME(keep_positive)(load(after + i * LANES), a);
        store(adjoint + i * LANES, a);
        store(scaled + i * LANES, SCALED(a, (vec){0} + post[i], rest, (vec){0}));
    }
}

/* Turn scratch->state from the adjoint of h_t into that of h_{t-1}; `after` is h_t, for ReLU only. */
static void NAME(adjoint_step)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile, int64_t t,
                               const REAL *after, REAL *adjoint)
{
    bits alive = (bits)(tile->lengths > (INTEGER)t);
    int all = NAME(all_set)(alive);
    REAL *scaled = all ? scratch->state : scratch->work;
    const REAL *post = scratch->post[NAME(rounding)(scratch->share, t, scratch->steps)];
    NAME(add_pool_gradients)(args, scratch, tile->index, t);
    NAME(scale_adjoint)(args, alive, scratch->state, after, post, scratch->plan.rest, adjoint, scaled);
    NAME(transform)(&scratch->plan, scratch->rows, scaled, NULL, NULL, scaled, NULL, NULL);
    if (all) return;
    for (int64_t i = 0; i < args->hidden * LANES; i += LANES)
        store(scratch->state + i, NAME(select)(alive, load(scratch->work + i), load(scratch->state + i)));
}

/* Sums over the steps of a block: dL/db = sum a_t, dL/dU_ij = sum a_ti x_tj, dL/du = sum a_t (h_t - z_t) / u
 * (divided at the end). `states` are h_t, for the signs only. */
static void NAME(sum_block)(const ScanArgs *args, const NAME(TileScratch) *scratch, int64_t count, const REAL *states)
{
    int64_t hidden = args->hidden, tile = hidden * LANES, size = scratch->input_size;
    const NAME(TileScratch) space = *scratch; /* local copy: rules out aliasing */
    scratch = &space;
    for (int64_t i = 0; i < hidden; i++) {
        const REAL *a = scratch->adjoints + i * LANES;
        if (args->grad_bias) {
            vec sum = load(scratch->grad_bias + i * LANES);
            for (int64_t t = 0; t < count; t++) sum += load(a + t * tile);
            store(scratch->grad_bias + i * LANES, sum);
        }
        for (int64_t j = 0; args->grad_weight && j < size; j++) {
            REAL *to = scratch->grad_weight + j * tile + i * LANES;
            vec sum = load(to);
            for (int64_t t = 0; t < count; t++) sum += load(a + t * tile) * load(scratch->x + (t * size + j) * LANES);
            store(to, sum);
        }
        if (args->grad_signs) {
            vec sum = load(scratch->grad_signs + i * LANES);
            for (int64_t t = 0; t < count; t++)
                sum += load(a + t * tile) * (load(states + t * tile + i * LANES) -
                                             NAME(unit_input)(args, NAME(input_of)(args, scratch, t), size, i));
            store(scratch->grad_signs + i * LANES, sum);
        }
    }
}

/* dL/dx_t = U' a_t, or a_t itself if the input is z_t. */
static void NAME(store_grad_x)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile, int64_t t0,
                               int64_t count)
{
    int64_t hidden = args->hidden, size = scratch->input_size < 0 ? hidden : args->input_size, stride = args->time * size;
    const REAL *weight = args->weight;
    REAL *to = (REAL *)args->grad_x + tile->first * stride + t0 * size;
    if (scratch->input_size < 0) {
        NAME(tile_to_rows)(tile, count * hidden, stride, scratch->adjoints, to);
        return;
    }
    for (int64_t t = 0; t < count; t++)
        for (int64_t j = 0; j < size; j++) { /* the inputs themselves are no longer needed */
            vec sums[4] = {{0}};
            const REAL *a = scratch->adjoints + t * hidden * LANES;
            for (int64_t i = 0; i < hidden; i++) sums[i % 4] += load(a + i * LANES) * weight[j * hidden + i];
            store(scratch->x + (t * size + j) * LANES, (sums[0] + sums[1]) + (sums[2] + sums[3]));
        }
    NAME(tile_to_rows)(tile, count * size, stride, scratch->x, to);
}

/* Recompute the bits of h_t if they were not stored; the sums computed with them are not used. */
static void NAME(mark_again)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile, int64_t t,
                             const REAL *h)
{
    int64_t hidden = args->hidden;
    const REAL *theta = args->thresholds;
    bits alive = (bits)(tile->lengths > (INTEGER)t);
    for (int64_t k = 0; k < args->num_thresholds; k++, theta += hidden) {
        if (args->grad_mean && !args->mean_bits)
            NAME(pool_mean)(hidden, h, theta, alive, scratch->work,
                            NAME(words_at)(args, NULL, scratch->mean_bits, tile->index, t, k));
        if (args->grad_positive && !args->positive_bits)
            NAME(pool_positive)(hidden, h, theta, alive, scratch->work,
                                NAME(words_at)(args, NULL, scratch->positive_bits, tile->index, t, k));
    }
}

/* Recompute the states of the segment that starts at `start` into scratch->segment, h_start first. */
static void NAME(replay_tile)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile, int64_t start,
                              int64_t end)
{
    int64_t hidden = args->hidden, size = hidden * LANES;
    if (start > 0)
        memcpy(scratch->segment, NAME(tile_checkpoint)(args, tile->index, start / args->segment - 1), (size_t)size * sizeof(REAL));
    else
        memset(scratch->segment, 0, (size_t)size * sizeof(REAL));
    for (int64_t t0 = start; t0 < end; t0 += scratch->steps) {
        int64_t count = end - t0 < scratch->steps ? end - t0 : scratch->steps;
        NAME(load_inputs)(args, scratch, tile, t0, count);
        for (int64_t t = t0; t < t0 + count; t++) {
            REAL *before = scratch->segment + (t - start) * size;
            NAME(tile_step)(args, scratch, tile, t, NAME(input_of)(args, scratch, t - t0), before, before + size);
            NAME(mark_again)(args, scratch, tile, t, before + size);
        }
    }
}

/* The incoming gradients of a tile; those of `mean` and `positive` are multiplied by 1/T and the slope. */
static void NAME(load_pool_gradients)(const ScanArgs *args, const NAME(TileScratch) *scratch, const NAME(Tile) *tile)
{
    int64_t hidden = args->hidden, size = args->num_thresholds * hidden;
    const REAL *mean = args->grad_mean, *positive = args->grad_positive, *most = args->grad_max;
    if (mean) NAME(rows_to_tile)(tile, size, size, mean + tile->first * size, scratch->mean);
    if (positive) NAME(rows_to_tile)(tile, size, size, positive + tile->first * size, scratch->positive);
    if (most) NAME(rows_to_tile)(tile, hidden, hidden, most + tile->first * hidden, scratch->most);
    for (int64_t i = 0; i < size * LANES; i += LANES) {
        if (mean) store(scratch->mean + i, load(scratch->mean + i) * tile->share);
        if (positive) store(scratch->positive + i, load(scratch->positive + i) * tile->share * (REAL)0.5);
    }
}

static void NAME(pool_adjoint_tile)(const ScanArgs *args, const NAME(TileScratch) *scratch, int64_t index)
{
    NAME(Tile) tile = NAME(tile_at)(args, index);
    int64_t hidden = args->hidden, size = hidden * LANES, first = tile.first * hidden, segment = args->segment;
    const REAL *grad_last = args->grad_last, *states = NULL;
    NAME(rows_to_tile)(&tile, hidden, hidden, grad_last ? grad_last + first : NULL, scratch->state);
    NAME(load_pool_gradients)(args, scratch, &tile);
    for (int64_t end = tile.longest, t0; end > 0; end = t0) {
        int64_t start = (end - 1) / segment * segment;
        if (args->replay && (end == tile.longest || end % segment == 0)) NAME(replay_tile)(args, scratch, &tile, start, end);
        t0 = end - start > scratch->steps ? end - scratch->steps : start;
        if (args->replay) states = scratch->segment + (t0 - start) * size; /* states before h_{t0}, then after */
        if (args->grad_weight || args->grad_signs) NAME(load_inputs)(args, scratch, &tile, t0, end - t0);
        for (int64_t t = end - t0 - 1; t >= 0; t--)
            NAME(adjoint_step)(args, scratch, &tile, t0 + t, states ? states + (t + 1) * size : NULL,
                               scratch->adjoints + t * size);
        NAME(sum_block)(args, scratch, end - t0, states ? states + size : NULL);
        if (args->grad_x) NAME(store_grad_x)(args, scratch, &tile, t0, end - t0);
    }
    int64_t width = scratch->input_size < 0 ? hidden : args->input_size;
    for (int64_t row = tile.first; args->grad_x && row < tile.first + tile.rows; row++)
        memset((REAL *)args->grad_x + (row * args->time + tile.longest) * width, 0,
               (size_t)((args->time - tile.longest) * width) * sizeof(REAL));
}

/* Add up the lanes for the slice's part of a summed gradient. */
static void NAME(sum_tiles)(void *gradient, int64_t slice, int64_t size, const REAL *lanes)
{
    for (int64_t i = 0; gradient && i < size; i++)
        ((REAL *)gradient)[slice * size + i] = NAME(sum_lanes)(load(lanes + i * LANES));
}

int NAME(pool_backward)(const ScanArgs *args, int64_t slice)
{
    NAME(TileScratch) scratch;
    int status = NAME(pool_prepare)(args, 1, &scratch);
    if (status) return status;
    int64_t hidden = args->hidden, tiles = (args->batch + LANES - 1) / LANES, slices = args->num_slices;
    const REAL *signs = args->signs;
    for (int64_t tile = slice * tiles / slices; tile < (slice + 1) * tiles / slices; tile++)
        NAME(pool_adjoint_tile)(args, &scratch, tile);
    for (int64_t i = 0; args->grad_signs && i < hidden * LANES; i++) scratch.grad_signs[i] /= signs[i / LANES];
    NAME(sum_tiles)(args->grad_weight, slice, args->input_size * hidden, scratch.grad_weight);
    NAME(sum_tiles)(args->grad_bias, slice, hidden, scratch.grad_bias);
    NAME(sum_tiles)(args->grad_signs, slice, hidden, scratch.grad_signs);
    free(scratch.memory);
    return STATUS_OK;
}

#undef WORD_BITS
