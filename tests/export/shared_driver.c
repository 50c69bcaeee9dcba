/* Runs networks of the shared build, case by case from standard input. All numbers are native, of 4 bytes:
 *     size of the blob, the blob, sequences, steps, window (0: none), hop, then raw codes or ids of every step.
 * Prints the status of every case and, if it opens, the number of logits, the logits of every step, the saturations of
 * every sequence, and the logits of the windows over the first sequence. Memory has exactly the size that the model
 * needs, so that a sanitizer reports every access beyond it.
 *
 * With FUZZ it is a target of libFuzzer: any bytes get the header of a blob, and run if they open. */
#include <stdio.h>
#include <stdlib.h>

#include "hadamrnn_shared.h"

static void put(const void *numbers, size_t count)
{
#ifdef FUZZ
    (void)numbers;
    (void)count;
#else
    (void)fwrite(numbers, 4, count, stdout);
#endif
}

static void *room(size_t bytes)
{
    void *const memory = malloc(bytes);
    if (memory == NULL) {
        exit(3);
    }
    return memory;
}

static hadamrnn_memory allocate(const hadamrnn_model *model)
{
    const hadamrnn_memory memory = {room(sizeof(hadamrnn_counters)), room(model->pool_wide * sizeof(int32_t)),
                                    room(model->narrow_cells * sizeof(int16_t)),
                                    room(model->work_cells * sizeof(int32_t)),
                                    room(model->code_cells * sizeof(int16_t))};
    return memory;
}

static void release(const hadamrnn_memory *memory)
{
    free(memory->counters);
    free(memory->wide);
    free(memory->narrow);
    free(memory->work);
    free(memory->codes);
}

static uint32_t run_sequence(const hadamrnn_model *model, const int32_t *inputs, uint32_t steps, int32_t *logits)
{
    const uint32_t width = (model->input_kind == HADAMRNN_DENSE) ? model->input_size : 1u;
    const hadamrnn_memory memory = allocate(model);
    const hadamrnn_view view = {memory.counters, memory.wide, memory.narrow};
    int16_t *const x = room(width * sizeof *x);
    hadamrnn_init(model, &memory);
    for (uint32_t t = 0; t < steps; t++) {
        if (model->input_kind == HADAMRNN_DENSE) {
            (void)hadamrnn_encode(model, inputs + (t * width), x);
            (void)hadamrnn_step(model, &memory, x);
        } else {
            (void)hadamrnn_step_id(model, &memory, (uint32_t)inputs[t]);
        }
        hadamrnn_logits(model, &view, logits);
        (void)hadamrnn_best(model, logits);
        put(logits, model->output_size);
    }
    const uint32_t saturations = memory.counters->saturations;
    free(x);
    release(&memory);
    return saturations;
}

static void run_window(const hadamrnn_model *model, const int32_t *inputs, uint32_t steps, uint16_t size, uint16_t hop,
                       int32_t *logits)
{
    const uint32_t width = (model->input_kind == HADAMRNN_DENSE) ? model->input_size : 1u;
    hadamrnn_memory *const states = room((size / hop) * sizeof *states);
    hadamrnn_window window;
    for (uint16_t i = 0; i < size / hop; i++) {
        states[i] = allocate(model);
    }
    if (hadamrnn_window_init(model, &window, size, hop) == HADAMRNN_OK) {
        hadamrnn_init(model, &states[0]);
        for (uint32_t t = 0; t < steps; t++) {
            const int32_t *const raw = inputs + (t * width);
            if (hadamrnn_window_push(model, &window, states, raw, (uint32_t)raw[0], logits) == HADAMRNN_READY) {
                put(logits, model->output_size);
            }
        }
    }
    for (uint16_t i = 0; i < size / hop; i++) {
        release(&states[i]);
    }
    free(states);
}

#ifdef FUZZ
static uint32_t crc32(const uint8_t *p, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (((crc & 1u) != 0u) ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEADER = 16, STEPS = 7, MOST = 1 << 16 };
    static int32_t inputs[STEPS << 15], logits[1 << 15];
    static hadamrnn_network network;
    uint8_t *const blob = room(size + HEADER);
    const uint32_t header[4] = {0x4E4E5248u, HADAMRNN_BLOB_VERSION, (uint32_t)(size + HEADER), crc32(data, size)};
    memcpy(blob, header, HEADER);
    memcpy(blob + HEADER, data, size);
    for (size_t i = sizeof inputs / sizeof *inputs; (inputs[0] == 0) && (i > 0u); i--) { /* the first time */
        const uint32_t drawn = (uint32_t)i * 2654435761u;
        inputs[i - 1u] = ((i & 3u) == 0u) ? (int32_t)(drawn & 3u) : (int32_t)drawn;
    }
    if (hadamrnn_open(blob, (uint32_t)(size + HEADER), &network) == HADAMRNN_OK) {
        const hadamrnn_model *const model = &network.model;
        if (hadamrnn_fits(model, MOST, MOST, MOST, MOST)) { /* larger ones take the fuzzer's time */
            (void)run_sequence(model, inputs, STEPS, logits);
            run_window(model, inputs, STEPS, 4u, 2u, logits);
        }
    }
    free(blob);
    return 0;
}
#else
static uint32_t get(void)
{
    uint32_t number = 0;
    if (fread(&number, sizeof number, 1, stdin) != 1) {
        exit(0); /* no more cases */
    }
    return number;
}

static void run_case(const uint8_t *blob, uint32_t size)
{
    hadamrnn_network network;
    const uint32_t sequences = get(), steps = get(), window = get(), hop = get(), count = get();
    int32_t *const inputs = room((count + 1u) * sizeof *inputs);
    if (fread(inputs, sizeof *inputs, count, stdin) != count) {
        exit(4);
    }
    const uint32_t status = hadamrnn_open(blob, size, &network);
    const hadamrnn_model *const model = &network.model;
    put(&status, 1);
    const uint32_t outputs = (status == HADAMRNN_OK) ? model->output_size : 0u;
    put(&outputs, 1);
    const uint32_t width = (outputs == 0u) ? 1u : (model->input_kind == HADAMRNN_DENSE) ? model->input_size : 1u;
    if ((outputs != 0u) && ((uint64_t)sequences * steps * width <= count)) {
        int32_t *const logits = room(outputs * sizeof *logits);
        for (uint32_t s = 0; s < sequences; s++) {
            const uint32_t saturations = run_sequence(model, inputs + (s * steps * width), steps, logits);
            put(&saturations, 1);
        }
        if (window != 0u) {
            run_window(model, inputs, steps, (uint16_t)window, (uint16_t)hop, logits);
        }
        free(logits);
    }
    free(inputs);
}

int main(void)
{
    for (;;) {
        const uint32_t size = get();
        uint8_t *const blob = room(size);
        if (fread(blob, 1, size, stdin) != size) {
            return 5;
        }
        run_case(blob, size);
        free(blob);
        const uint32_t end = 0xE0Du;
        put(&end, 1);
    }
}
#endif
