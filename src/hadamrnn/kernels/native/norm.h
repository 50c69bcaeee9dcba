/* Fused batch norm, ReLU and skip connection: y = ReLU(scale h + shift) + skip for each unit, and its gradient.
 *
 * Batch norm has scale = a / s and shift = c - m a / s, where m and s are the unit's mean and standard deviation
 * over the batch. So two kernels sum over the valid steps (within a row's length), slice by slice, and two
 * process all steps. `kernels/norm.py` does the arithmetic in between.
 */

#define NORM_BLOCK 64 /* steps per partial sum, so that a long sum loses no digits */

INLINE int64_t NAME(norm_length)(const NormArgs *args, int64_t row)
{
    return args->lengths ? args->lengths[row] : args->time;
}

/* Add to first[i] the sum of one of these terms over the valid steps of the slice. `kind` is a constant:
 *
 *     SUM_STATES      h
 *     SUM_SQUARES     (h - centre)^2, and to `second` h - centre
 *     SUM_GRADIENTS   g, and to `second` g (h - centre), g = grad_y where ReLU lets it through
 */
enum { NAME(SUM_STATES), NAME(SUM_SQUARES), NAME(SUM_GRADIENTS) };

INLINE void NAME(norm_sum)(int kind, const NormArgs *args, int64_t slice, const REAL *restrict centre,
                           REAL *restrict first, REAL *restrict second, REAL *restrict block)
{
    const int64_t size = args->size;
    const REAL *restrict scale = args->scale, *restrict shift = args->shift;
    for (int64_t row = slice * args->batch / args->num_slices; row < (slice + 1) * args->batch / args->num_slices; row++) {
        int64_t length = NAME(norm_length)(args, row);
        for (int64_t t0 = 0; t0 < length; t0 += NORM_BLOCK) {
            int64_t end = t0 + NORM_BLOCK < length ? t0 + NORM_BLOCK : length;
            memset(block, 0, (size_t)(2 * size) * sizeof(REAL));
            for (int64_t t = t0; t < end; t++) {
                const REAL *restrict h = (const REAL *)args->h + (row * args->time + t) * size;
                if (kind == NAME(SUM_STATES)) for (int64_t i = 0; i < size; i++) block[i] += h[i];
                if (kind == NAME(SUM_SQUARES))
                    for (int64_t i = 0; i < size; i++) {
                        REAL apart = h[i] - centre[i];
                        block[i] += apart * apart;
                        block[size + i] += apart;
                    }
                if (kind == NAME(SUM_GRADIENTS)) {
                    const REAL *restrict grad = (const REAL *)args->grad_y + (row * args->time + t) * size;
                    for (int64_t i = 0; i < size; i++) {
                        REAL g = h[i] * scale[i] + shift[i] > 0 ? grad[i] : 0;
                        block[i] += g;
                        block[size + i] += g * (h[i] - centre[i]);
                    }
                }
            }
            for (int64_t i = 0; i < size; i++) first[i] += block[i];
            for (int64_t i = 0; kind != NAME(SUM_STATES) && i < size; i++) second[i] += block[size + i];
        }
    }
}

/* sums[slice]: the sum of h, and the sum of squares about the slice's own mean. The second pass corrects the rounding
 * of the first. */
int NAME(norm_moments)(const NormArgs *args, int64_t slice)
{
    int64_t size = args->size, count = 0;
    REAL *sums = (REAL *)args->sums + slice * 2 * size, *mean = calloc((size_t)(4 * size) + 1, sizeof(REAL));
    if (!mean) return STATUS_NO_MEMORY;
    REAL *apart = mean + size, *block = mean + 2 * size;
    for (int64_t row = slice * args->batch / args->num_slices; row < (slice + 1) * args->batch / args->num_slices; row++)
        count += NAME(norm_length)(args, row);
    memset(sums, 0, (size_t)(2 * size) * sizeof(REAL));
    NAME(norm_sum)(NAME(SUM_STATES), args, slice, NULL, sums, NULL, block);
    for (int64_t i = 0; count && i < size; i++) mean[i] = sums[i] / (REAL)count;
    NAME(norm_sum)(NAME(SUM_SQUARES), args, slice, mean, sums + size, apart, block);
    for (int64_t i = 0; count && i < size; i++) {
        sums[i] = mean[i] * (REAL)count + apart[i];
        sums[size + i] -= apart[i] * apart[i] / (REAL)count;
    }
    free(mean);
    return STATUS_OK;
}

/* y, from h, scale, shift and skip. Past a row's length, y is only the skip. */
int NAME(norm_forward)(const NormArgs *args, int64_t slice)
{
    const int64_t size = args->size;
    const REAL *restrict scale = args->scale, *restrict shift = args->shift;
    for (int64_t row = slice * args->batch / args->num_slices; row < (slice + 1) * args->batch / args->num_slices; row++) {
        int64_t length = NAME(norm_length)(args, row);
        for (int64_t t = 0; t < args->time; t++) {
            int64_t at = (row * args->time + t) * size;
            const REAL *restrict h = (const REAL *)args->h + at, *restrict skip = args->skip;
            REAL *restrict y = (REAL *)args->y + at;
            if (t >= length) memset(y, 0, (size_t)size * sizeof(REAL));
            else
                for (int64_t i = 0; i < size; i++) {
                    REAL n = h[i] * scale[i] + shift[i];
                    y[i] = n <= 0 ? 0 : n; /* NaN stays NaN */
                }
            if (skip)
                for (int64_t i = 0; i < size; i++) y[i] += skip[at + i];
        }
    }
    return STATUS_OK;
}

/* sums[slice]: of g and of g (h - mean), as in `norm_sum`. */
int NAME(norm_sums)(const NormArgs *args, int64_t slice)
{
    int64_t size = args->size;
    REAL *sums = (REAL *)args->sums + slice * 2 * size, *block = malloc((size_t)(2 * size) * sizeof(REAL) + 1);
    if (!block) return STATUS_NO_MEMORY;
    memset(sums, 0, (size_t)(2 * size) * sizeof(REAL));
    NAME(norm_sum)(NAME(SUM_GRADIENTS), args, slice, args->mean, sums, sums + size, block);
    free(block);
    return STATUS_OK;
}

/* grad_h = scale g + slope h + offset, zero past a row's length. */
int NAME(norm_backward)(const NormArgs *args, int64_t slice)
{
    const int64_t size = args->size;
    const REAL *restrict scale = args->scale, *restrict shift = args->shift;
    const REAL *restrict slope = args->slope, *restrict offset = args->offset;
    for (int64_t row = slice * args->batch / args->num_slices; row < (slice + 1) * args->batch / args->num_slices; row++) {
        int64_t length = NAME(norm_length)(args, row), first = row * args->time * size;
        for (int64_t t = 0; t < length; t++) {
            const REAL *restrict h = (const REAL *)args->h + first + t * size;
            const REAL *restrict grad = (const REAL *)args->grad_y + first + t * size;
            REAL *restrict to = (REAL *)args->grad_h + first + t * size;
            for (int64_t i = 0; i < size; i++) {
                REAL g = h[i] * scale[i] + shift[i] > 0 ? grad[i] : 0;
                to[i] = scale[i] * g + (slope[i] * h[i] + offset[i]);
            }
        }
        memset((REAL *)args->grad_h + first + length * size, 0, (size_t)((args->time - length) * size) * sizeof(REAL));
    }
    return STATUS_OK;
}

#undef NORM_BLOCK
