/* The backward pass of the scan: a_{t-1} = W' f'(h_t) a_t + dL/dh_{t-1}, where a_t is the gradient of h_t. */

/* Gradients that a slice sums over its rows; NULL: not requested. */
typedef struct {
    REAL *weight, *bias, *signs, *output_weight, *output_bias;
} NAME(Sums);

INLINE REAL NAME(dot)(int64_t size, const REAL *a, const REAL *b)
{
    vec sums = {0};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) sums += load(a + i) * load(b + i);
    REAL sum = NAME(sum_lanes)(sums);
    for (; i < size; i++) sum += a[i] * b[i];
    return sum;
}

static void NAME(add_to)(int64_t size, const REAL *restrict from, REAL *restrict to)
{
    for (int64_t i = 0; i < size; i++) to[i] += from[i];
}

/* The derivative of ReLU: zero the entries whose state is not positive. */
static void NAME(mask)(int64_t size, const REAL *restrict state, REAL *restrict adjoint)
{
    for (int64_t i = 0; i < size; i++) adjoint[i] = state[i] <= 0 ? 0 : adjoint[i];
}

/* sum += c_0 row_0 + c_1 row_1 + ..., c_t = coefficients[t * stride]; without coefficients, all 1. */
static void NAME(add_rows)(int64_t count, int64_t size, const REAL *coefficients, int64_t stride,
                           const REAL *rows, REAL *sum)
{
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        vec total = load(sum + i);
        for (int64_t t = 0; t < count; t++) {
            vec row = load(rows + t * size + i);
            total += coefficients ? row * coefficients[t * stride] : row;
        }
        store(sum + i, total);
    }
    for (; i < size; i++)
        for (int64_t t = 0; t < count; t++) sum[i] += (coefficients ? coefficients[t * stride] : 1) * rows[t * size + i];
}

/* sum += the sums of the columns of `rows`, (count, size). LANES rows are `size` vectors; lane i of the j-th of them
 * belongs to column (j LANES + i) mod size. */
static void NAME(add_columns)(int64_t count, int64_t size, const REAL *rows, REAL *sum)
{
    int64_t whole = count / LANES * LANES;
    for (int64_t j = 0; j < size && whole > 0; j++) {
        vec total = {0};
        for (int64_t t = 0; t < whole; t += LANES) total += load(rows + t * size + j * LANES);
        for (int64_t i = 0; i < LANES; i++) sum[(j * LANES + i) % size] += total[i];
    }
    for (int64_t t = whole; t < count; t++)
        for (int64_t o = 0; o < size; o++) sum[o] += rows[t * size + o];
}

/* Gradients of x and of the input weights from the adjoints of a block: dL/dz_t = a_t. */
static void NAME(input_gradients)(const ScanArgs *args, const NAME(Scratch) *scratch, const NAME(Sums) *sums,
                                  int64_t row, int64_t t0, int64_t count)
{
    int64_t hidden = args->hidden, size = args->input_size, at = row * args->time + t0;
    const REAL *weight = args->weight, *x = args->x;
    REAL *grad_x = args->grad_x;
    const REAL *adjoints = scratch->adjoints;
    if (args->input_kind == INPUT_ROWS) {
        if (grad_x) memcpy(grad_x + at * hidden, adjoints, (size_t)(count * hidden) * sizeof(REAL));
        return;
    }
    if (args->input_kind == INPUT_TOKENS) {
        const int64_t *ids = args->ids + at;
        for (int64_t t = 0, end; sums->weight && t < count; t = end) { /* consecutive steps with the same id */
            REAL *sum = sums->weight + ids[t] * hidden;
            for (end = t + 1; end < count && ids[end] == ids[t];) end++;
            if (end == t + 1) NAME(add_to)(hidden, adjoints + t * hidden, sum);
            else NAME(add_rows)(end - t, hidden, NULL, 0, adjoints + t * hidden, sum);
        }
        return;
    }
    if (sums->bias) NAME(add_rows)(count, hidden, NULL, 0, adjoints, sums->bias);
    for (int64_t j = 0; j < size; j++) {
        if (sums->weight) NAME(add_rows)(count, hidden, x + at * size + j, size, adjoints, sums->weight + j * hidden);
        for (int64_t t = 0; grad_x && t < count; t++)
            grad_x[(at + t) * size + j] = NAME(dot)(hidden, weight + j * hidden, adjoints + t * hidden);
    }
}

/* Recompute the states of the segment that starts at step `start` into scratch->segment, h_start first. */
static void NAME(replay)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t row, int64_t start, int64_t end)
{
    int64_t hidden = args->hidden;
    const REAL *h_0 = args->h_0, *from = h_0 ? h_0 + row * hidden : scratch->zeros;
    if (start > 0) from = NAME(checkpoint)(args, row, start / args->segment - 1);
    const REAL *inputs[MAX_STEPS];
    REAL *state = scratch->segment;
    memcpy(state, from, (size_t)hidden * sizeof(REAL));
    for (int64_t t0 = start; t0 < end; t0 += scratch->steps) {
        int64_t count = end - t0 < scratch->steps ? end - t0 : scratch->steps;
        NAME(input_block)(args, scratch, row, t0, count, inputs);
        NAME(run_block)(args, scratch, t0, count, state, inputs, state + hidden);
        state += count * hidden;
    }
}

/* h_{t-1} = W^-1 (h_t - z_t), from the end of a block (scratch->state) down to its start. */
static void NAME(rebuild)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t t0, int64_t count,
                          const REAL **inputs)
{
    int64_t hidden = args->hidden;
    size_t bytes = (size_t)hidden * sizeof(REAL);
    const REAL *minus[MAX_STEPS];
    REAL *out[MAX_STEPS];
    for (int64_t i = 0, t = count - 1; i < count; i++, t--) {
        minus[i] = inputs[t];
        out[i] = scratch->states + t * hidden;
    }
    memcpy(scratch->states + count * hidden, scratch->state, bytes);
    const REAL *inverse = scratch->inverse[NAME(rounding)(scratch->share, t0, scratch->steps)];
    NAME(Chain) chain = {.pre = inverse, .minus = minus};
    NAME(run_chain)(&scratch->plan, scratch->rows, &chain, count, scratch->state, out);
    memcpy(scratch->state, scratch->states, bytes);
}

/* Point states[i] at h_{t0 + i}, i = 0 .. count. */
static void NAME(find_states)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t row, int64_t t0,
                              int64_t count, const REAL **inputs, const REAL **states)
{
    int64_t hidden = args->hidden, length = NAME(row_length)(args, row), end = t0 + count;
    const REAL *h_0 = args->h_0, *output = args->output, *first = scratch->states;
    if (output) {
        output += (row * args->time + t0) * hidden; /* h_{t0 + 1} */
        states[0] = t0 > 0 ? output - hidden : h_0 ? h_0 + row * hidden : scratch->zeros;
        for (int64_t i = 1; i <= count; i++) states[i] = output + (i - 1) * hidden;
        return;
    }
    if (args->replay) {
        first = scratch->segment + t0 % args->segment * hidden;
    } else {
        if (end == length)
            memcpy(scratch->state, (REAL *)args->last + row * hidden, (size_t)hidden * sizeof(REAL));
        else if (end % args->segment == 0)
            memcpy(scratch->state, NAME(checkpoint)(args, row, end / args->segment - 1), (size_t)hidden * sizeof(REAL));
        NAME(rebuild)(args, scratch, t0, count, inputs);
    }
    for (int64_t i = 0; i <= count; i++) states[i] = first + i * hidden;
}

/* The gradients of the read-out with respect to the states of a block, V and b_o. */
static void NAME(readout_gradients)(const ScanArgs *args, const NAME(Scratch) *scratch, const NAME(Sums) *sums,
                                    const REAL *grad_logits, int64_t count, const REAL **states)
{
    int64_t outputs = args->output_size, width = scratch->width;
    const REAL *inputs = states ? NAME(padded)(args, scratch, states[1], count) : NULL;
    NAME(readout_grad_states)(count, outputs, width, scratch->output_weight, grad_logits, args->sigma ? inputs : NULL,
                              scratch->readout_adjoints);
    if (sums->output_weight)
        NAME(readout_grad_weight)(count, outputs, args->sigma, width, inputs, grad_logits, scratch->grad_output_weight);
}

/* Propagate the adjoint from the last state of a block to the state before its first; store every a_t. */
static void NAME(block_adjoints)(const ScanArgs *args, const NAME(Scratch) *scratch, int64_t t0, int64_t count,
                                 const REAL *incoming, int64_t stride, const REAL **states)
{
    int64_t hidden = args->hidden;
    const REAL *post = scratch->post[NAME(rounding)(scratch->share, t0, scratch->steps)];
    REAL *first = scratch->adjoints + (count - 1) * hidden;
    memcpy(first, scratch->adjoint, (size_t)hidden * sizeof(REAL));
    if (incoming) NAME(add_to)(hidden, incoming + (count - 1) * stride, first);
    const REAL *add[MAX_STEPS];
    REAL *before[MAX_STEPS]; /* destination of W' a_t for step t = count - 1 - i */
    for (int64_t i = 0, t = count - 1; i < count; i++, t--) {
        add[i] = incoming && t > 0 ? incoming + (t - 1) * stride : NULL;
        before[i] = t > 0 ? scratch->adjoints + (t - 1) * hidden : scratch->adjoint;
    }
    if (!args->relu) {
        NAME(Chain) chain = {.pre = post, .add = add};
        NAME(run_chain)(&scratch->plan, scratch->rows, &chain, count, first, before);
        return;
    }
    for (int64_t i = 0, t = count - 1; i < count; i++, t--) {
        REAL *a = scratch->adjoints + t * hidden;
        NAME(mask)(hidden, states[t + 1], a);
        NAME(transform)(&scratch->plan, scratch->rows, a, NULL, post, before[i], NULL, add[i]);
    }
}

/* y_t = W h_{t-1} = h_t - z_t wherever a_t is not zero, and dL/du = sum_t a_t * y_t / u (divided at the end). From
 * unit i on: `vectors` vectors of them, a constant. */
INLINE void NAME(sign_gradients_tile)(int vectors, int64_t hidden, int64_t i, const REAL *adjoints, REAL *sum,
                                      int64_t count, const REAL **inputs, const REAL **states)
{
    vec total[4];
    UNROLL for (int j = 0; j < vectors; j++) total[j] = load(sum + i + j * LANES);
    for (int64_t t = 0; t < count; t++) {
        const REAL *a = adjoints + t * hidden + i, *h = states[t + 1] + i, *z = inputs[t] + i;
        UNROLL for (int j = 0; j < vectors; j++)
            total[j] += load(a + j * LANES) * (load(h + j * LANES) - load(z + j * LANES));
    }
    UNROLL for (int j = 0; j < vectors; j++) store(sum + i + j * LANES, total[j]);
}

NOINLINE void NAME(sign_gradients)(const ScanArgs *args, const NAME(Scratch) *scratch, REAL *sum,
                                   int64_t count, const REAL **inputs, const REAL **states)
{
    int64_t hidden = args->hidden, i = 0;
    const REAL *adjoints = scratch->adjoints;
    for (; i + 4 * LANES <= hidden; i += 4 * LANES)
        NAME(sign_gradients_tile)(4, hidden, i, adjoints, sum, count, inputs, states);
    for (; i + LANES <= hidden; i += LANES)
        NAME(sign_gradients_tile)(1, hidden, i, adjoints, sum, count, inputs, states);
    for (; i < hidden; i++)
        for (int64_t t = 0; t < count; t++) sum[i] += adjoints[t * hidden + i] * (states[t + 1][i] - inputs[t][i]);
}

static void NAME(backward_row)(const ScanArgs *args, const NAME(Scratch) *scratch, const NAME(Sums) *sums, int64_t row)
{
    int64_t hidden = args->hidden, time = args->time, outputs = args->output_size, segment = args->segment;
    int64_t length = NAME(row_length)(args, row);
    const REAL *grad_last = args->grad_last, *grad_output = args->grad_output, *grad_logits = args->grad_logits;
    const REAL *pointers[MAX_STEPS + 1], *inputs[MAX_STEPS], **states = NULL;
    if (sums->signs || args->relu || (grad_logits && (args->sigma || sums->output_weight)))
        states = pointers;
    memcpy(scratch->adjoint, grad_last ? grad_last + row * hidden : scratch->zeros, (size_t)hidden * sizeof(REAL));
    for (int64_t end = length, t0; end > 0; end = t0) {
        int64_t start = (end - 1) / segment * segment; /* start of the segment */
        if (states && args->replay && !args->output && (end == length || end % segment == 0))
            NAME(replay)(args, scratch, row, start, end);
        t0 = end - start > scratch->steps ? end - scratch->steps : start;
        int64_t count = end - t0, at = row * time + t0, next = t0 > scratch->steps ? t0 - scratch->steps : 0;
        if (grad_logits) FETCH(grad_logits + (row * time + next) * outputs, (t0 - next) * outputs, 0);
        const REAL *incoming = NULL;
        if (states) {
            NAME(input_block)(args, scratch, row, t0, count, inputs);
            NAME(find_states)(args, scratch, row, t0, count, inputs, states);
        }
        if (grad_output) incoming = grad_output + at * hidden;
        if (grad_logits) {
            NAME(readout_gradients)(args, scratch, sums, grad_logits + at * outputs, count, states);
            incoming = scratch->readout_adjoints;
        }
        NAME(block_adjoints)(args, scratch, t0, count, incoming, grad_logits ? scratch->width : hidden, states);
        if (sums->signs) NAME(sign_gradients)(args, scratch, sums->signs, count, inputs, states);
        NAME(input_gradients)(args, scratch, sums, row, t0, count);
    }
    if (args->grad_h_0) memcpy((REAL *)args->grad_h_0 + row * hidden, scratch->adjoint, (size_t)hidden * sizeof(REAL));
    int64_t size = args->input_kind == INPUT_ROWS ? hidden : args->input_size;
    if (args->grad_x)
        memset((REAL *)args->grad_x + (row * time + length) * size, 0, (size_t)((time - length) * size) * sizeof(REAL));
    if (sums->output_bias && grad_logits)
        NAME(add_columns)(time, outputs, grad_logits + row * time * outputs, sums->output_bias);
}

/* A slice's own part of a summed gradient of `size` elements, zero-filled; NULL stays NULL. */
INLINE REAL *NAME(share)(void *gradient, int64_t slice, int64_t size)
{
    if (!gradient) return NULL;
    return memset((REAL *)gradient + slice * size, 0, (size_t)size * sizeof(REAL));
}

int NAME(scan_backward)(const ScanArgs *args, int64_t slice)
{
    NAME(Scratch) scratch;
    int status = NAME(prepare)(args, &scratch);
    if (status) return status;
    int64_t hidden = args->hidden, outputs = args->output_size, num_slices = args->num_slices;
    int64_t weight_rows = args->input_kind == INPUT_TOKENS ? args->num_ids : args->input_size;
    const REAL *signs = args->signs;
    NAME(Sums) sums = {
        .weight = NAME(share)(args->grad_weight, slice, weight_rows * hidden),
        .bias = NAME(share)(args->grad_bias, slice, hidden),
        .signs = NAME(share)(args->grad_signs, slice, hidden),
        .output_weight = NAME(share)(args->grad_output_weight, slice, outputs * hidden),
        .output_bias = NAME(share)(args->grad_output_bias, slice, outputs),
    };
    for (int64_t row = slice * args->batch / num_slices; row < (slice + 1) * args->batch / num_slices; row++)
        NAME(backward_row)(args, &scratch, &sums, row);
    for (int64_t i = 0; sums.signs && i < hidden; i++) sums.signs[i] /= signs[i];
    for (int64_t o = 0; sums.output_weight && o < outputs; o++)
        memcpy(sums.output_weight + o * hidden, scratch.grad_output_weight + o * scratch.width, (size_t)hidden * sizeof(REAL));
    free(scratch.memory);
    return STATUS_OK;
}

/* total[i] = parts[0][i] + ... + parts[count - 1][i], in this order, for start <= i < end; parts (count, size). */
int NAME(reduce)(int64_t count, int64_t size, int64_t start, int64_t end, const REAL *parts, REAL *total)
{
    if (start < end) memcpy(total + start, parts + start, (size_t)(end - start) * sizeof(REAL));
    for (int64_t part = 1; part < count; part++)
        if (start < end) NAME(add_to)(end - start, parts + part * size + start, total + start);
    return STATUS_OK;
}

#undef FETCH
