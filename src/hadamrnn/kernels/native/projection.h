/* Z = X U' + b over many positions, and its gradients, by slices of the positions. */

#define POSITIONS 96 /* of a block, which stays in cache while the panels of U pass over it */

/* Memory for two packed matrices and a row of zeros; NULL where there is none. */
static REAL *NAME(product_space)(int64_t first, int64_t second, int64_t zeros)
{
    REAL *space = malloc((size_t)(first + second + zeros) * sizeof(REAL) + 1);
    if (space) memset(space + first + second, 0, (size_t)zeros * sizeof(REAL));
    return space;
}

/* z of the slice's positions. */
int NAME(project_forward)(const ProjectArgs *args, int64_t slice)
{
    int64_t inputs = args->inputs, outputs = args->outputs, size = NAME(packed_size)(inputs, outputs);
    int64_t end = (slice + 1) * args->positions / args->num_slices;
    REAL *packed = NAME(product_space)(size, 0, outputs);
    if (!packed) return STATUS_NO_MEMORY;
    NAME(pack)(inputs, outputs, (NAME(Matrix)){args->weight, 1, inputs}, packed);
    for (int64_t at = slice * args->positions / args->num_slices; at < end; at += POSITIONS) {
        int64_t count = end - at < POSITIONS ? end - at : POSITIONS;
        NAME(Matrix) x = {(const REAL *)args->x + at * inputs, inputs, 1};
        NAME(product)(count, outputs, inputs, x, packed, args->bias ? args->bias : packed + size,
                      (REAL *)args->z + at * outputs);
    }
    free(packed);
    return STATUS_OK;
}

/* dL/dX = A U, dL/dU = A' X and dL/db = sum A over the slice's positions, A the gradient of Z. */
int NAME(project_backward)(const ProjectArgs *args, int64_t slice)
{
    int64_t inputs = args->inputs, outputs = args->outputs, end = (slice + 1) * args->positions / args->num_slices;
    int64_t size = NAME(packed_size)(outputs, inputs), block = NAME(packed_size)(POSITIONS, inputs);
    REAL *grad_weight = NAME(share)(args->grad_weight, slice, outputs * inputs);
    REAL *grad_bias = NAME(share)(args->grad_bias, slice, outputs), *grad_x = args->grad_x;
    REAL *packed = NAME(product_space)(size, block, inputs);
    if (!packed) return STATUS_NO_MEMORY;
    if (grad_x) NAME(pack)(outputs, inputs, (NAME(Matrix)){args->weight, inputs, 1}, packed);
    for (int64_t at = slice * args->positions / args->num_slices; at < end; at += POSITIONS) {
        int64_t count = end - at < POSITIONS ? end - at : POSITIONS;
        const REAL *x = (const REAL *)args->x + at * inputs, *grad_z = (const REAL *)args->grad_z + at * outputs;
        if (grad_x)
            NAME(product)(count, inputs, outputs, (NAME(Matrix)){grad_z, outputs, 1}, packed, packed + size + block,
                          grad_x + at * inputs);
        if (grad_bias) NAME(add_rows)(count, outputs, NULL, 0, grad_z, grad_bias);
        if (!grad_weight) continue;
        NAME(pack)(count, inputs, (NAME(Matrix)){x, inputs, 1}, packed + size);
        NAME(product)(outputs, inputs, count, (NAME(Matrix)){grad_z, 1, outputs}, packed + size, NULL, grad_weight);
    }
    free(packed);
    return STATUS_OK;
}

#undef POSITIONS
