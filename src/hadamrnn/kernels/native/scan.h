/* The recurrence h_t = f(W h_{t-1} + z_t) and its adjoint, one batch row at a time.
 *
 * A row is processed in blocks of a few steps, short enough for the block's inputs, states and adjoints to stay in
 * cache. The backward pass needs the states again. It reads them from the saved output if there is one. Otherwise a
 * linear recurrence runs backwards from the end of a segment, h_{t-1} = W^-1 (h_t - z_t), and an irreversible one
 * (ReLU, a leak) runs forwards again from its start. So only one state per segment is stored. Start reading at
 * `scan_forward` and `scan_backward`.
 */

typedef struct {
    NAME(Plan) plan;
    const REAL *columns, *rows;    /* factors of H' and H, as `transform` takes them for H and H' */
    REAL *post[2], *inverse[2];    /* u / sqrt(b) and 1 / (u sqrt(b)), see `rounding` */
    double share;
    int64_t steps;                 /* the length of a block */
    int64_t width;                 /* hidden, padded for the read-out */
    REAL *z, *states, *adjoints;   /* (steps, hidden), (steps + 1, hidden), (steps, hidden) */
    REAL *state, *adjoint;         /* (hidden,): carried from block to block */
    REAL *segment;                 /* (segment + 1, hidden), replay only */
    REAL *readout_states, *readout_adjoints; /* (steps, width) */
    REAL *output_weight, *grad_output_weight; /* (output_size, width) */
    const REAL *zeros;             /* (hidden,) */
    void *memory;
} NAME(Scratch);

INLINE int64_t NAME(block_steps)(int64_t hidden)
{
    int64_t steps = 4096 / hidden;
    return steps < 1 ? 1 : steps > MAX_STEPS ? MAX_STEPS : steps;
}

/* Allocate `count` elements that start a new cache line; with base NULL only count them. */
INLINE REAL *NAME(take)(REAL *base, int64_t *used, int64_t count)
{
    REAL *start = base ? base + *used : NULL;
    int64_t line = 64 / (int64_t)sizeof(REAL);
    *used += (count + line - 1) / line * line;
    return start;
}

static int64_t NAME(lay_out)(const ScanArgs *args, NAME(Scratch) *scratch, REAL *base)
{
    int64_t used = 0, hidden = args->hidden, steps = scratch->steps, width = scratch->width;
    int64_t outputs = args->output_weight ? args->output_size : 0;
    for (int up = 0; up < 2; up++) {
        scratch->post[up] = NAME(take)(base, &used, hidden);
        scratch->inverse[up] = NAME(take)(base, &used, hidden);
    }
    scratch->zeros = NAME(take)(base, &used, hidden);
    scratch->plan.work = NAME(take)(base, &used, 2 * hidden);
    scratch->z = NAME(take)(base, &used, steps * hidden);
    scratch->states = NAME(take)(base, &used, (steps + 1) * hidden);
    scratch->adjoints = NAME(take)(base, &used, steps * hidden);
    scratch->state = NAME(take)(base, &used, hidden);
    scratch->adjoint = NAME(take)(base, &used, hidden);
    scratch->segment = NAME(take)(base, &used, args->replay ? (args->segment + 1) * hidden : 0);
    scratch->readout_states = NAME(take)(base, &used, outputs ? steps * width : 0);
    scratch->readout_adjoints = NAME(take)(base, &used, outputs ? steps * width : 0);
    scratch->output_weight = NAME(take)(base, &used, outputs * width);
    scratch->grad_output_weight = NAME(take)(base, &used, outputs * width);
    return used;
}

/* u / sqrt(b) rounded towards zero and away from it; returns the fraction of steps that must use the latter.
 *
 * Rounding 1 / sqrt(512) only to the nearest number would make the norm of the state fall by 2 % in a million float32
 * steps. So SCALED also multiplies by the remaining digits. Without a multiply-add, blocks of steps alternate between
 * the two roundings (`rounding`), which keeps W orthogonal on average. */
static double NAME(scale_signs)(const ScanArgs *args, REAL *down, REAL *up)
{
    const REAL *signs = args->signs;
    REAL near = (REAL)args->scale, step = near * (REAL_IS_DOUBLE ? (REAL)0x1p-53 : (REAL)0x1p-24);
    double low = !ROUNDS_ONCE && near > args->scale ? near - 2 * step : near;
    double high = !ROUNDS_ONCE && near < args->scale ? near + 2 * step : near;
    low = (REAL)low, high = (REAL)high;
    for (int64_t i = 0; i < args->hidden; i++) {
        down[i] = (REAL)(signs[i] * low);
        up[i] = (REAL)(signs[i] * high);
    }
    return high > low ? (args->scale - low) / (high - low) : 0;
}

/* 1 if the block of `steps` steps that contains step t rounds up; such blocks are evenly spread over time. */
INLINE int64_t NAME(rounding)(double share, int64_t t, int64_t steps)
{
    double block = (double)(t / steps);
    return (int64_t)((block + 1) * share) - (int64_t)(block * share);
}

static int NAME(prepare)(const ScanArgs *args, NAME(Scratch) *scratch)
{
    int64_t hidden = args->hidden, tile = 4 * LANES;
    const REAL *weight = args->output_weight;
    memset(scratch, 0, sizeof *scratch);
    scratch->steps = NAME(block_steps)(hidden);
    scratch->width = (hidden + tile - 1) / tile * tile;
    size_t bytes = (size_t)NAME(lay_out)(args, scratch, NULL) * sizeof(REAL) + 64;
    scratch->memory = calloc(1, bytes);
    if (!scratch->memory) return STATUS_NO_MEMORY;
    NAME(lay_out)(args, scratch, (REAL *)(((uintptr_t)scratch->memory + 63) & ~(uintptr_t)63));

    NAME(make_plan)(&scratch->plan, args, 1);
    scratch->columns = args->factors_transposed;
    scratch->rows = args->factors;
    scratch->share = NAME(scale_signs)(args, scratch->post[0], scratch->post[1]);
    double scale = ROUNDS_ONCE ? (REAL)args->scale : args->scale;
    for (int up = 0; up < 2; up++)
        for (int64_t i = 0; i < hidden; i++) scratch->inverse[up][i] = (REAL)(scale * scale / scratch->post[up][i]);
    for (int64_t o = 0; weight && o < args->output_size; o++)
        memcpy(scratch->output_weight + o * scratch->width, weight + o * hidden, (size_t)hidden * sizeof(REAL));
    return STATUS_OK;
}

static void NAME(copy_plus)(int64_t size, const REAL *restrict from, REAL factor, const REAL *restrict row,
                            REAL *restrict to)
{
    for (int64_t i = 0; i < size; i++) to[i] = from[i] + factor * row[i];
}

static void NAME(add_scaled)(int64_t size, REAL factor, const REAL *restrict row, REAL *restrict to)
{
    for (int64_t i = 0; i < size; i++) to[i] += factor * row[i];
}

/* Point inputs[t] at z_{t0 + t}, t = 0 .. count - 1, of a row. */
static void NAME(input_block)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t row, int64_t t0,
                              int64_t count, const REAL **inputs)
{
    int64_t hidden = args->hidden, size = args->input_size, at = row * args->time + t0;
    const REAL *x = args->x, *weight = args->weight, *from = args->bias ? args->bias : scratch->zeros;
    for (int64_t t = 0; t < count; t++) {
        if (args->input_kind == INPUT_ROWS) {
            inputs[t] = x + (at + t) * hidden;
        } else if (args->input_kind == INPUT_TOKENS) {
            inputs[t] = weight + args->ids[at + t] * hidden;
        } else if (size == 0) {
            inputs[t] = from;
        } else {
            REAL *z = scratch->z + t * hidden;
            inputs[t] = z;
            NAME(copy_plus)(hidden, from, x[(at + t) * size], weight, z);
            for (int64_t j = 1; j < size; j++) NAME(add_scaled)(hidden, x[(at + t) * size + j], weight + j * hidden, z);
        }
    }
}

/* Bring `size` numbers into the cache, to be read or (`write` 1) written, before the next block needs them. */
#define FETCH(from, size, write) \
    for (int64_t number = 0; number < (size); number += 64 / (int64_t)sizeof(REAL)) __builtin_prefetch((from) + number, write)

/* h_t = f(u / sqrt(b) * H h_{t-1} + z_t) for `count` steps from t0 on; states are stored one after another. */
static void NAME(run_block)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t t0, int64_t count,
                            const REAL *before, const REAL **inputs, REAL *states)
{
    const REAL *post = scratch->post[NAME(rounding)(scratch->share, t0, scratch->steps)];
    REAL *out[MAX_STEPS];
    for (int64_t t = 0; t < count; t++) out[t] = states + t * args->hidden;
    NAME(Chain) chain = {.post = post, .add = inputs, .relu = (int)args->relu};
    NAME(run_chain)(&scratch->plan, scratch->columns, &chain, count, before, out);
}

/* Consecutive states padded to `width` for the read-out; a copy only if they are narrower. */
static const REAL *NAME(padded)(const ScanArgs *args, const NAME(Scratch) *scratch, const REAL *states, int64_t count)
{
    int64_t hidden = args->hidden, width = scratch->width;
    if (width == hidden) return states;
    for (int64_t t = 0; t < count; t++)
        memcpy(scratch->readout_states + t * width, states + t * hidden, (size_t)hidden * sizeof(REAL));
    return scratch->readout_states;
}

INLINE int64_t NAME(row_length)(const ScanArgs *args, int64_t row)
{
    return args->lengths ? args->lengths[row] : args->time;
}

INLINE REAL *NAME(checkpoint)(const ScanArgs *args, int64_t row, int64_t index)
{
    int64_t count = (args->time + args->segment - 1) / args->segment - 1;
    return (REAL *)args->checkpoints + (row * count + index) * args->hidden;
}

INLINE int64_t NAME(least)(int64_t a, int64_t b, int64_t c)
{
    int64_t least = a < b ? a : b;
    return least < c ? least : c;
}

static void NAME(forward_row)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t row)
{
    int64_t hidden = args->hidden, time = args->time, length = NAME(row_length)(args, row);
    int64_t outputs = args->output_size;
    size_t bytes = (size_t)hidden * sizeof(REAL);
    REAL *output = args->output, *logits = args->logits;
    const REAL *h_0 = args->h_0, *before = h_0 ? h_0 + row * hidden : scratch->zeros;
    const REAL *inputs[MAX_STEPS];
    for (int64_t t0 = 0, end, boundary = 0, kept = 0; t0 < length; t0 = end) {
        if (t0 == boundary) { /* a segment starts */
            if (t0 > 0 && args->checkpoints) memcpy(NAME(checkpoint)(args, row, kept++), before, bytes);
            boundary += args->segment;
        }
        end = NAME(least)(t0 + scratch->steps, length, boundary);
        NAME(input_block)(args, scratch, row, t0, end - t0, inputs);
        REAL *states = output ? output + (row * time + t0) * hidden : scratch->states;
        memcpy(scratch->state, before, bytes); /* before the block's states are overwritten */
        before = scratch->state;
        NAME(run_block)(args, scratch, t0, end - t0, before, inputs, states);
        before = states + (end - t0 - 1) * hidden;
        if (logits) {
            FETCH(logits + (row * time + end) * outputs, NAME(least)(length - end, scratch->steps, length) * outputs, 1);
            NAME(readout)(end - t0, outputs, args->sigma, scratch->width, scratch->output_weight, args->output_bias,
                          NAME(padded)(args, scratch, states, end - t0), logits + (row * time + t0) * outputs);
        }
    }
    memcpy((REAL *)args->last + row * hidden, before, bytes);
    if (output) memset(output + (row * time + length) * hidden, 0, (size_t)(time - length) * bytes);
    const REAL *output_bias = args->output_bias;
    for (int64_t t = length; logits && t < time; t++) /* sigma(0) = 0 past the length */
        for (int64_t o = 0; o < outputs; o++)
            logits[(row * time + t) * outputs + o] = output_bias ? output_bias[o] : 0;
}

int NAME(scan_forward)(const ScanArgs *args, int64_t slice)
{
    NAME(Scratch) scratch;
    int status = NAME(prepare)(args, &scratch);
    if (status) return status;
    for (int64_t row = slice * args->batch / args->num_slices; row < (slice + 1) * args->batch / args->num_slices; row++)
        NAME(forward_row)(args, &scratch, row);
    free(scratch.memory);
    return STATUS_OK;
}
