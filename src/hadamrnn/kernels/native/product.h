/* C[m][n] += sum_k A(m, k) B[k][n]: the dense products between two layers, and their gradients.
 *
 * A tile of C stays in registers, numbers of A are broadcast, rows of B are vectors. B is packed into panels as
 * wide as a tile, padded with zeros, so that no vector reads past an end.
 */
#define PANEL (2 * LANES) /* columns of a tile */
#if VECTOR_BYTES == 64
#define TILE_ROWS 12 /* 24 sums in 32 registers */
#else
#define TILE_ROWS 6 /* 12 sums in 16 */
#endif
#define REST_ROWS (TILE_ROWS / 3)

/* Element (row, column) of a matrix lies at data[row * down + column * right]. */
typedef struct {
    const REAL *data;
    int64_t down, right;
} NAME(Matrix);

/* Columns n .. n + PANEL - 1 of B (depth, columns) to to[k][..], for every panel after the other. */
static void NAME(pack)(int64_t depth, int64_t columns, NAME(Matrix) b, REAL *restrict to)
{
    for (int64_t n = 0; n < columns; n += PANEL)
        for (int64_t k = 0; k < depth; k++, to += PANEL) {
            int64_t width = columns - n < PANEL ? columns - n : PANEL;
            const REAL *from = b.data + k * b.down + n * b.right;
            if (b.right == 1 && width == PANEL) memcpy(to, from, PANEL * sizeof(REAL));
            else for (int64_t i = 0; i < PANEL; i++) to[i] = i < width ? from[i * b.right] : 0;
        }
}

INLINE int64_t NAME(packed_size)(int64_t depth, int64_t columns) { return (columns + PANEL - 1) / PANEL * PANEL * depth; }

/* `rows` rows (a constant) of one panel of C, `stride` apart, of which `columns` columns are real: start + A B,
 * with one start for all rows; without it C itself is the start. */
INLINE void NAME(product_tile)(int rows, int64_t depth, NAME(Matrix) a, const REAL *b, const REAL *start, REAL *c,
                               int64_t stride, int64_t columns)
{
    vec sums[TILE_ROWS][2];
    REAL edge[PANEL] = {0};
    UNROLL for (int m = 0; m < rows; m++) {
        const REAL *from = start ? start : c + m * stride;
        if (columns < PANEL) from = memcpy(edge, from, (size_t)columns * sizeof(REAL));
        sums[m][0] = load(from);
        sums[m][1] = load(from + LANES);
    }
    for (int64_t k = 0; k < depth; k++, b += PANEL) {
        vec low = load(b), high = load(b + LANES);
        UNROLL for (int m = 0; m < rows; m++) {
            REAL factor = a.data[m * a.down + k * a.right];
            sums[m][0] += low * factor;
            sums[m][1] += high * factor;
        }
    }
    UNROLL for (int m = 0; m < rows; m++) {
        REAL *to = columns < PANEL ? edge : c + m * stride;
        store(to, sums[m][0]);
        store(to + LANES, sums[m][1]);
        if (columns < PANEL) memcpy(c + m * stride, edge, (size_t)columns * sizeof(REAL));
    }
}

/* C (rows, columns) = start + A B, or C += A B without a start; B (depth, columns) packed. */
static void NAME(product)(int64_t rows, int64_t columns, int64_t depth, NAME(Matrix) a, const REAL *b, const REAL *start,
                          REAL *c)
{
    for (int64_t n = 0; n < columns; n += PANEL, b += depth * PANEL) {
        int64_t width = columns - n < PANEL ? columns - n : PANEL, m = 0;
        const REAL *from = start ? start + n : NULL;
        NAME(Matrix) left = a;
        for (; m + TILE_ROWS <= rows; m += TILE_ROWS, left.data += TILE_ROWS * a.down)
            NAME(product_tile)(TILE_ROWS, depth, left, b, from, c + m * columns + n, columns, width);
        for (; m + REST_ROWS <= rows; m += REST_ROWS, left.data += REST_ROWS * a.down)
            NAME(product_tile)(REST_ROWS, depth, left, b, from, c + m * columns + n, columns, width);
        for (; m < rows; m++, left.data += a.down)
            NAME(product_tile)(1, depth, left, b, from, c + m * columns + n, columns, width);
    }
}

#undef REST_ROWS
#undef TILE_ROWS
#undef PANEL
