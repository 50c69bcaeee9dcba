/* Cross-entropy that keeps its precision when it is tiny: with d_c = l_c - l_target and m = max(0, max d_c),
 *
 *     loss = log(1 + sum_{c != target} exp(d_c)) = m + log(exp(-m) + sum exp(d_c - m)),
 *
 * by log1p where m = 0, so a logit gap of 30 gives 1e-13 and not 0. Gradients: p_c for the other classes,
 * and for the target minus their sum instead of p - 1, which would round to 0.
 */

#define LOSS_BLOCK 512 /* logits of a block; a position with more classes than that is a block of its own */

/* exp(x) for x <= 0, to about two units in the last place; below the smallest normal number, about 0. No branch
 * but the clamp, so the loop over a block vectorises; NaN passes it, for a broken net must not look perfect.
 * x = n ln 2 + r, exp(x) = 2^n exp(r), |r| <= ln(2) / 2. */
INLINE REAL NAME(exp_negative)(REAL x)
{
#if REAL_IS_DOUBLE
    const double magic = 6755399441055744.0, low = -708.0; /* 1.5 * 2^52: adding it rounds to an integer */
    double clamped = x < low ? low : x, shifted = clamped * 1.4426950408889634 + magic, n = shifted - magic;
    double r = (clamped - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t word;
    memcpy(&word, &shifted, sizeof word);
    word = (word + 1023) << 52; /* the low bits of `shifted` are n; those above fall out of the shift */
    memcpy(&shifted, &word, sizeof word);
    return x < low ? 0 : p * shifted;
#else
    const float magic = 12582912.0f, low = -87.0f; /* 1.5 * 2^23 */
    float clamped = x < low ? low : x, shifted = clamped * 1.44269504f + magic, n = shifted - magic;
    float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t word;
    memcpy(&word, &shifted, sizeof word);
    word = (word + 127) << 23;
    memcpy(&shifted, &word, sizeof word);
    return x < low ? 0 : p * shifted;
#endif
}

INLINE REAL NAME(log_of)(REAL x) { return REAL_IS_DOUBLE ? (REAL)log((double)x) : (REAL)logf((float)x); }
INLINE REAL NAME(log1p_of)(REAL x) { return REAL_IS_DOUBLE ? (REAL)log1p((double)x) : (REAL)log1pf((float)x); }

/* What a block of positions needs, class by class, so that positions lie side by side in a vector. */
typedef struct {
    int64_t count;             /* of positions */
    REAL *exps;                /* (classes, count): exp(d_c - m) */
    REAL *top, *own, *others;  /* (count,): the largest logit, the target's, the sum of the other classes' exps */
    INTEGER *target;           /* (count,) */
} NAME(LossBlock);

static void NAME(exponentials)(const NAME(LossBlock) *block, int64_t classes, const REAL *restrict logits)
{
    int64_t count = block->count;
    REAL *restrict exps = block->exps, *restrict top = block->top, *restrict others = block->others;
    const INTEGER *restrict target = block->target;
    for (int64_t n = 0; n < count; n++) {
        for (int64_t c = 0; c < classes; c++) exps[c * count + n] = logits[n * classes + c];
        block->own[n] = logits[n * classes + target[n]];
        top[n] = block->own[n];
        others[n] = 0;
    }
    for (int64_t c = 0; c < classes; c++)
        for (int64_t n = 0; n < count; n++) top[n] = exps[c * count + n] > top[n] ? exps[c * count + n] : top[n];
    for (int64_t c = 0; c < classes; c++) {
        for (int64_t n = 0; n < count; n++) {
            REAL e = NAME(exp_negative)(exps[c * count + n] - top[n]);
            exps[c * count + n] = e;
            others[n] += c == target[n] ? 0 : e;
        }
    }
}

/* Add up the losses of a block and write its gradients, if asked to; return the sum. */
static double NAME(block_loss)(const LossArgs *args, const NAME(LossBlock) *block, const int64_t *targets,
                               REAL *grad_logits)
{
    int64_t classes = args->classes, count = block->count;
    double total = 0; /* whatever REAL is: a mean over many positions */
    for (int64_t n = 0; n < count; n++) {
        REAL *grad = grad_logits ? grad_logits + n * classes : NULL;
        if (targets[n] == args->ignore_index) {
            if (grad) memset(grad, 0, (size_t)classes * sizeof(REAL));
            continue;
        }
        REAL others = block->others[n], shift = block->top[n] - block->own[n];
        REAL own = block->exps[block->target[n] * count + n], sum = own + others;
        total += shift > 0 ? shift + NAME(log_of)(sum) : NAME(log1p_of)(others);
        if (!grad) continue;
        REAL inverse = (REAL)args->scale / sum;
        for (int64_t c = 0; c < classes; c++) grad[c] = block->exps[c * count + n] * inverse;
        grad[block->target[n]] = -others * inverse;
    }
    return total;
}

int NAME(loss)(const LossArgs *args, int64_t slice)
{
    int64_t classes = args->classes;
    if (classes < 1) return STATUS_BAD_SIZE;
    int64_t most = LANES > LOSS_BLOCK / classes ? LANES : LOSS_BLOCK / classes;
    int64_t start = slice * args->positions / args->num_slices;
    int64_t end = (slice + 1) * args->positions / args->num_slices;
    const REAL *logits = args->logits;
    REAL *grad_logits = args->grad_logits;
    REAL *memory = malloc((size_t)(most * (classes + 4)) * sizeof(REAL));
    if (!memory) return STATUS_NO_MEMORY;
    NAME(LossBlock) block = {
        .top = memory,
        .own = memory + most,
        .others = memory + 2 * most,
        .target = (INTEGER *)(memory + 3 * most),
        .exps = memory + 4 * most,
    };
    double total = 0;
    for (int64_t n0 = start; n0 < end; n0 += most) {
        const int64_t *targets = args->targets + n0;
        block.count = end - n0 < most ? end - n0 : most;
        for (int64_t n = 0; n < block.count; n++) /* an ignored position has none: any class will do */
            block.target[n] = targets[n] < 0 || targets[n] >= classes ? 0 : (INTEGER)targets[n];
        NAME(exponentials)(&block, classes, logits + n0 * classes);
        total += NAME(block_loss)(args, &block, targets, grad_logits ? grad_logits + n0 * classes : NULL);
    }
    ((REAL *)args->losses)[slice] = (REAL)total;
    free(memory);
    return STATUS_OK;
}
