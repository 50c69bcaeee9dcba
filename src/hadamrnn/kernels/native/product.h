/* c = a b + bias, the product of two matrices: the inputs of a layer projected for all steps, and their gradients.
 *
 * A tile of PRODUCT_ROWS rows and PRODUCT_VECTORS vectors of columns stays in registers over PRODUCT_DEPTH terms of
 * the sum; the numbers of b that it reads are consecutive in a panel. The order of every sum does not depend on how
 * rows are divided into slices.
 */
#define PRODUCT_ROWS 6
#define PRODUCT_VECTORS (VECTOR_BYTES == 64 ? 4 : 2)
#define PRODUCT_COLUMNS (PRODUCT_VECTORS * LANES)
#define PRODUCT_DEPTH 128

/* c[i][j] = sum_k a[i][k] panel[k][j] + start[j], or + c[i][j] without `start`, for `rows` rows, a constant, and `width`
 * columns. */
INLINE void NAME(product_tile)(int rows, const ProductArgs *args, int64_t depth, int64_t width, const REAL *a,
                               const REAL *panel, const REAL *start, REAL *c)
{
    const int64_t row = args->a_row, step = args->a_step, columns = args->columns;
    vec sums[PRODUCT_ROWS][PRODUCT_VECTORS] = {{{0}}};
    for (int64_t k = 0; k < depth; k++) {
        vec b[PRODUCT_VECTORS];
        UNROLL for (int v = 0; v < PRODUCT_VECTORS; v++) b[v] = load(panel + k * PRODUCT_COLUMNS + v * LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            REAL factor = a[i * row + k * step];
            UNROLL for (int v = 0; v < PRODUCT_VECTORS; v++) sums[i][v] += b[v] * factor;
        }
    }
    if (width == PRODUCT_COLUMNS) {
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int v = 0; v < PRODUCT_VECTORS; v++) {
                REAL *to = c + i * columns + v * LANES;
                store(to, sums[i][v] + load(start ? start + v * LANES : to));
            }
        }
        return;
    }
    REAL found[PRODUCT_COLUMNS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < PRODUCT_VECTORS; v++) store(found + v * LANES, sums[i][v]);
        for (int64_t j = 0; j < width; j++) c[i * columns + j] = found[j] + (start ? start[j] : c[i * columns + j]);
    }
}

/* sums += the sums of the columns of a panel. */
NOINLINE void NAME(add_panel)(int64_t depth, int64_t width, const REAL *panel, REAL *sums)
{
    for (int64_t j = 0; j < width; j += LANES) {
        vec sum = {0};
        for (int64_t t = 0; t < depth; t++) sum += load(panel + t * PRODUCT_COLUMNS + j);
        for (int64_t i = 0; i < LANES && j + i < width; i++) sums[j + i] += sum[i];
    }
}

/* Rows `first` to `last` - 1 of c, summed over the terms `from` to `to` - 1; `sums` += the sums of these rows of b. */
NOINLINE void NAME(product_rows)(const ProductArgs *args, int64_t first, int64_t last, int64_t from, int64_t to, REAL *c,
                                 REAL *sums)
{
    const int64_t columns = args->columns;
    const REAL *a = args->a, *b = args->b, *bias = args->bias;
    REAL panel[PRODUCT_DEPTH * PRODUCT_COLUMNS], start[PRODUCT_COLUMNS];
    for (int64_t k = from; k < to || k == from; k += PRODUCT_DEPTH) {
        int64_t depth = to - k < PRODUCT_DEPTH ? to - k : PRODUCT_DEPTH;
        for (int64_t j = 0; j < columns; j += PRODUCT_COLUMNS) {
            int64_t width = columns - j < PRODUCT_COLUMNS ? columns - j : PRODUCT_COLUMNS;
            memset(start, 0, sizeof start);
            if (bias) memcpy(start, bias + j, (size_t)width * sizeof(REAL));
            for (int64_t t = 0; t < depth; t++) {
                memcpy(panel + t * PRODUCT_COLUMNS, b + (k + t) * columns + j, (size_t)width * sizeof(REAL));
                for (int64_t i = width; i < PRODUCT_COLUMNS; i++) panel[t * PRODUCT_COLUMNS + i] = 0;
            }
            if (sums) NAME(add_panel)(depth, width, panel, sums + j);
            const REAL *begin = k == from ? start : NULL, *at = a + k * args->a_step;
            int64_t i = first;
            for (; i + PRODUCT_ROWS <= last; i += PRODUCT_ROWS)
                NAME(product_tile)(PRODUCT_ROWS, args, depth, width, at + i * args->a_row, panel, begin, c + i * columns + j);
            for (; i < last; i++)
                NAME(product_tile)(1, args, depth, width, at + i * args->a_row, panel, begin, c + i * columns + j);
        }
    }
}

/* A slice's rows of c. */
int NAME(product)(const ProductArgs *args, int64_t slice)
{
    int64_t first = slice * args->rows / args->num_slices, last = (slice + 1) * args->rows / args->num_slices;
    NAME(product_rows)(args, first, last, 0, args->depth, args->c, NULL);
    return STATUS_OK;
}

/* A slice's terms of c, in the slice's own matrix, whose last row is the sum of the rows of b. */
int NAME(product_terms)(const ProductArgs *args, int64_t slice)
{
    int64_t from = slice * args->depth / args->num_slices, to = (slice + 1) * args->depth / args->num_slices;
    REAL *c = (REAL *)args->c + slice * (args->rows + 1) * args->columns, *sums = c + args->rows * args->columns;
    memset(sums, 0, (size_t)args->columns * sizeof(REAL));
    NAME(product_rows)(args, 0, args->rows, from, to, c, sums);
    return STATUS_OK;
}

#undef PRODUCT_ROWS
#undef PRODUCT_VECTORS
#undef PRODUCT_COLUMNS
#undef PRODUCT_DEPTH
