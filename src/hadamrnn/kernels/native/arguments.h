/* The native kernels of hadamrnn: one argument structure, a handful of entry points.
 *
 * Plain C, no global state, no threads: the caller cuts the batch into slices (a function of the
 * shape alone) and calls an entry point once per slice, from as many threads as it likes. Each slice
 * writes its sums (gradients of shared weights) to separate memory, and `reduce` adds the slices
 * in order, so the bits of a result do not depend on the number of threads.
 *
 * Arrays are dense, row-major and hold float or double; `kernels/library.py` reads the structures from
 * this file: their members are int64_t, double and pointers.
 */
#ifndef HADAMRNN_ARGUMENTS_H
#define HADAMRNN_ARGUMENTS_H

#include <stdint.h>

/* The form of z_t, the term that a step adds to W h_{t-1}. */
enum {
    INPUT_DENSE = 0,  /* z_t = U x_t + b: x (batch, time, input_size), weight (input_size, hidden) = U' */
    INPUT_TOKENS = 1, /* z_t = table[id_t]: ids (batch, time), weight (num_ids, hidden) = table */
    INPUT_ROWS = 2    /* z_t itself: x (batch, time, hidden) */
};

enum { STATUS_OK = 0, STATUS_NO_MEMORY = 1, STATUS_BAD_SIZE = 2 };

/* h_t = f(W h_{t-1} + z_t), f the identity or ReLU, W = diag(u) (I_q kron H_b) / sqrt(b), and
 * H_b = F_1 kron ... kron F_r kron S with S Sylvester's matrix. Optional arrays may be NULL.
 *
 * The pools (see pooled.h) process the batch in padded tiles with one row per lane of a vector (`tile_rows`).
 * `checkpoints` and all arrays marked (tiles, ...) have this layout, and slices divide the tiles. Pools start at zero
 * states, take no tokens and have no output except `last` and the pools. An integer is as wide as a real number;
 * words = ceil(hidden / its bits), one bit per unit. */
typedef struct {
    int64_t batch, time, hidden, input_size, num_ids, output_size, num_thresholds;
    int64_t sylvester;   /* order of S, a power of two, 1 if there is none */
    int64_t num_factors; /* r */
    int64_t input_kind;
    int64_t relu;       /* f is ReLU */
    int64_t replay;     /* the backward pass runs forwards again from a checkpoint, never backwards in time */
    int64_t sigma;      /* the read-out reads ReLU(h_t) instead of h_t */
    int64_t segment;    /* steps between two checkpoints */
    int64_t num_slices; /* slice s has the rows [s batch / num_slices, (s+1) batch / num_slices) */
    double scale;       /* 1 / sqrt(b) */

    const int64_t *factor_orders;     /* (r,) orders of F_1 ... F_r */
    const void *factors;              /* F_1 ... F_r one after the other */
    const void *factors_transposed;   /* their transposes */
    const void *signs;                /* u (hidden,), times the leak; no entry is zero */
    const void *x;                    /* see the kinds of input */
    const int64_t *ids;
    const void *weight;
    const void *bias;                 /* b (hidden,), NULL: zeros; dense inputs only */
    const void *h_0;                  /* (batch, hidden), NULL: zeros */
    const int64_t *lengths;           /* (batch,), each 0..time, NULL: all `time` */
    const void *output_weight;        /* V (output_size, hidden), NULL: no read-out */
    const void *output_bias;          /* (output_size,), NULL: zeros */
    const void *thresholds;           /* (num_thresholds, hidden) */

    void *output;      /* h_t (batch, time, hidden), zero past the length; NULL: not wanted */
    void *logits;      /* V sigma(h_t) + b_o (batch, time, output_size) */
    void *last;        /* the state at the length (batch, hidden) */
    void *checkpoints; /* (batch, ceil(time / segment) - 1, hidden): the states after c * segment steps */
    void *mean, *positive, *max;     /* (batch, num_thresholds, hidden) twice and (batch, hidden); NULL: not wanted */
    void *mean_bits, *positive_bits; /* (tiles, time, num_thresholds, words, lanes) integers; NULL: not kept, and
                                      * the backward pass recomputes them segment by segment */
    void *max_steps;                 /* (tiles, hidden, lanes) integers: the step; the caller sets -1 */

    /* The backward pass: gradients that come in, NULL: zero ... */
    const void *grad_output, *grad_logits, *grad_last, *grad_mean, *grad_positive, *grad_max;
    /* ... and gradients that go out, NULL: not wanted. The first three belong to a row each, */
    void *grad_x;   /* the shape of x */
    void *grad_h_0; /* (batch, hidden) */
    /* the rest is summed over rows: (num_slices, ...), zero-filled by the slice that owns it. */
    void *grad_weight, *grad_bias, *grad_signs;
    void *grad_output_weight, *grad_output_bias;
} ScanArgs;

/* Fused batch norm, ReLU and skip connection; see norm.h. Vectors (size,); all other arrays except the sums are
 * (batch, time, size). */
typedef struct {
    int64_t batch, time, size, num_slices;
    const int64_t *lengths;           /* (batch,), each 0..time, NULL: all `time` */
    const void *h, *skip;             /* NULL: no skip */
    const void *scale, *shift;
    void *sums;                       /* (num_slices, 2, size) */
    void *y;
    const void *grad_y, *mean, *slope, *offset; /* the backward pass */
    void *grad_h;
} NormArgs;

/* c = a b + bias; see product.h. a[i][k] lies at i a_row + k a_step. */
typedef struct {
    int64_t rows, columns, depth, a_row, a_step, num_slices;
    const void *a, *b;  /* b (depth, columns) */
    const void *bias;   /* (columns,), NULL: zeros */
    void *c;            /* (rows, columns); of `product_terms` (num_slices, rows + 1, columns) */
} ProductArgs;

/* Mean cross-entropy of (positions, classes) logits; see loss.h. */
typedef struct {
    int64_t positions, classes, num_slices;
    const void *logits;
    const int64_t *targets;
    void *losses;      /* (num_slices,) sum of the slice's losses */
    void *grad_logits; /* scale * d(sum of losses)/d(logits), NULL: not wanted */
    double scale;
} LossArgs;

/* A batch of an integer network, from zero states, by tiles of `integer_rows` rows. */
typedef struct {
    int64_t batch, time, every_output;
    const uint8_t *blob; /* the network, see runtime/hadamrnn_blob.h; its numbers have 32 bits, as lanes.h reads them */
    int64_t blob_bytes;
    const int32_t *x;       /* codes (batch, time, input_size), which saturate to input_bits; NULL: ids */
    const int32_t *ids;     /* (batch, time), rows of `table` */
    const int32_t *table;   /* contribution of each id to the sums of the lowest layer (ids, units) */
    const int64_t *lengths; /* (batch,), each 0..time */
    int32_t *logits;        /* (batch, output_size) after the last step of each row; or (batch, time, output_size) of
                             * every step up to the length */
    int64_t *saturations;   /* (tiles,): entries of states that were clipped */
} IntegerArgs;

/* A recording through the front end of runtime/hadamrnn_front_end.h, whose fields have the same names. */
typedef struct {
    int64_t count; /* number of samples, at least a frame */
    int64_t frame, hop, log2_size, bands, is_mel, noise_shift;
    const uint8_t *window, *cosines, *edges, *weights, *log2;
    const int16_t *samples; /* (count,) */
    int16_t *codes;         /* (frames, bands) */
} FrontEndArgs;

/* One group of a reservoir: the fields of `hadamrnn_reservoir_group` in runtime/hadamrnn_reservoir.h, which explains them. */
typedef struct {
    int64_t log2_width, dilation, is_difference, input_shift, is_segmented, blocks, features, ends[3];
    int64_t first_block, first_feature, first_segment;
    int64_t sampled; /* states of each row in `states` */
    int16_t *states; /* (batch, sampled, units): after every args->every-th counted step; NULL: not wanted */
} ReservoirGroupArgs;

/* The counts of a reservoir over a batch, by slices: num_groups of them for each tile of `integer_rows` rows. The constants
 * are the bytes of a device. */
typedef struct {
    int64_t batch, time, channels, num_groups, channel_bytes, features, every;
    const ReservoirGroupArgs *groups;
    const uint8_t *block, *unit, *threshold, *segment;
    const int16_t *x;       /* codes (batch, time, channels) */
    const int64_t *lengths; /* (batch,), each 0..time */
    uint16_t *counts;       /* (batch, features); set to zero by the caller */
    int64_t *saturations;   /* (slices,): entries of states that were clipped; set to zero by the caller */
} ReservoirArgs;

#endif
