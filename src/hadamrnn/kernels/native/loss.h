/* Cross-entropy that keeps its precision when it is tiny: with d_c = l_c - l_target and m = max(0, max d_c),
 *
 *     loss = log(1 + sum_{c != target} exp(d_c)) = m + log(exp(-m) + sum exp(d_c - m)),
 *
 * computed by log1p if m = 0, so a logit gap of 30 gives 1e-13 and not 0. The gradient is p_c for the other classes,
 * and for the target minus their sum, because p - 1 would round to 0.
 */

#define LOSS_BLOCK 512 /* logits of a block; a position with more classes is a block by itself */

/* exp(x) for x <= 0, to about two units in the last place; below the smallest normal number, about 0. No branch
 * except the clamp, so the loop over a block vectorises; NaN stays NaN, because a broken network must not look perfect.
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

/* log(1 + x) for 0 <= x < infinity, to about two units in the last place. No branch, and NaN stays NaN. 1 + x rounds to
 * y = 2^n m, m from sqrt(1 / 2) to sqrt(2); with s = (m - 1) / (m + 1)
 *
 *     log(1 + x) = n ln 2 + 2 atanh(s) + (x - (y - 1)) / y,   atanh(s) = s + s^3 / 3 + s^5 / 5 + ... */
INLINE REAL NAME(log1p_positive)(REAL x)
{
    REAL y = 1 + x, m, n;
#if REAL_IS_DOUBLE
    enum { TERMS = 11 };
    const double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10, magic = 4503599627370496.0; /* 2^52 */
    uint64_t word, exponent, offset;
    memcpy(&word, &y, sizeof word);
    memcpy(&offset, &magic, sizeof offset);
    exponent = (word - 0x3fe6a09e667f3bcd) >> 52; /* the bits of sqrt(1 / 2) */
    word -= exponent << 52;
    offset |= exponent; /* 2^52 + n */
#else
    enum { TERMS = 5 };
    const float high = 0.693359375f, low = -2.12194440e-4f, magic = 8388608.0f; /* 2^23 */
    uint32_t word, exponent, offset;
    memcpy(&word, &y, sizeof word);
    memcpy(&offset, &magic, sizeof offset);
    exponent = (word - 0x3f3504f3) >> 23;
    word -= exponent << 23;
    offset |= exponent;
#endif
    memcpy(&m, &word, sizeof m);
    memcpy(&n, &offset, sizeof n);
    n -= magic;
    REAL s = (m - 1) / (m + 1), square = s * s, series = 0;
    UNROLL for (int k = TERMS; k > 0; k--) series = (series + (REAL)1 / (REAL)(2 * k + 1)) * square;
    return n * high + (2 * s + (2 * s * series + (n * low + (x - (y - 1)) / y)));
}

/* Buffers for a block of positions, stored class by class, so that a vector has consecutive positions. */
typedef struct {
    int64_t count;             /* number of positions */
    REAL *exps;                /* (classes, count): exp(d_c - m), then the gradients */
    REAL *top, *own, *others;  /* (count,): the largest logit, the target's, the sum of the other classes' exps */
    REAL *losses;              /* (count,) */
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

/* The losses of a block. The gradients of the first `classes` (0 or all of them) overwrite the exponentials;
   m = top - own. */
static void NAME(losses_and_gradients)(const NAME(LossBlock) *block, int64_t classes, REAL scale)
{
    int64_t count = block->count;
    REAL *restrict exps = block->exps, *restrict inverse = block->top, *restrict losses = block->losses;
    const REAL *restrict own = block->own, *restrict others = block->others;
    const INTEGER *restrict target = block->target;
    for (int64_t n = 0; n < count; n++) {
        REAL m = inverse[n] - own[n], sum = NAME(exp_negative)(-m) + others[n];
        losses[n] = m + NAME(log1p_positive)(m > 0 ? sum - 1 : others[n]);
        inverse[n] = scale / sum;
    }
    for (int64_t c = 0; c < classes; c++)
        for (int64_t n = 0; n < count; n++)
            exps[c * count + n] = inverse[n] * (c == target[n] ? -others[n] : exps[c * count + n]);
}

/* Write the gradients of a block, if requested, and return the sum of its losses. */
static double NAME(finish_block)(const NAME(LossBlock) *block, int64_t classes, REAL *grad_logits)
{
    int64_t count = block->count;
    double total = 0; /* double for either REAL: the mean is over many positions */
    for (int64_t n = 0; n < count; n++) {
        total += block->losses[n];
        for (int64_t c = 0; grad_logits && c < classes; c++)
            grad_logits[n * classes + c] = block->exps[c * count + n];
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
    REAL *memory = malloc((size_t)(most * (classes + 5)) * sizeof(REAL));
    if (!memory) return STATUS_NO_MEMORY;
    NAME(LossBlock) block = {
        .top = memory,
        .own = memory + most,
        .others = memory + 2 * most,
        .losses = memory + 3 * most,
        .target = (INTEGER *)(memory + 4 * most),
        .exps = memory + 5 * most,
    };
    double total = 0;
    for (int64_t n0 = start; n0 < end; n0 += most) {
        const int64_t *targets = args->targets + n0;
        block.count = end - n0 < most ? end - n0 : most;
        for (int64_t n = 0; n < block.count; n++) {
            if (targets[n] < 0 || targets[n] >= classes) { free(memory); return STATUS_BAD_SIZE; }
            block.target[n] = (INTEGER)targets[n];
        }
        NAME(exponentials)(&block, classes, logits + n0 * classes);
        NAME(losses_and_gradients)(&block, grad_logits ? classes : 0, (REAL)args->scale);
        total += NAME(finish_block)(&block, classes, grad_logits ? grad_logits + n0 * classes : NULL);
    }
    ((REAL *)args->losses)[slice] = (REAL)total;
    free(memory);
    return STATUS_OK;
}
