/* The front end of runtime/hadamrnn_front_end.h on a recording, for one instruction set. */
#include "arguments.h"

#define HADAMRNN_SPECIALISED
#include "hadamrnn_front_end.h"

#define NAME_(name, isa) name##_##isa
#define NAME(name, isa) NAME_(name, isa)
enum { MOST_SAMPLES = 1024, MOST_BANDS = 64 };

/* Run the recording; there is one slice. */
int NAME(front_end, ISA)(const FrontEndArgs *args, int64_t index)
{
    int16_t samples[MOST_SAMPLES], work[MOST_SAMPLES];
    int32_t noise[MOST_BANDS], codes[MOST_BANDS];
    int16_t *written = args->codes;
    const hadamrnn_front_end front_end = {
        .frame = (uint16_t)args->frame,
        .hop = (uint16_t)args->hop,
        .log2_size = (uint8_t)args->log2_size,
        .bands = (uint8_t)args->bands,
        .is_mel = (uint8_t)args->is_mel,
        .noise_shift = (uint8_t)args->noise_shift,
        .window = args->window,
        .cosines = args->cosines,
        .edges = args->edges,
        .weights = args->weights,
        .log2 = args->log2,
    };
    hadamrnn_signal signal = {.samples = samples, .work = work, .noise = noise};
    (void)index;
    hadamrnn_signal_init(&signal);
    for (int64_t n = 0; n < args->count; n++)
        if (hadamrnn_push_sample(&front_end, &signal, args->samples[n], codes))
            for (int64_t band = 0; band < args->bands; band++) *written++ = (int16_t)codes[band];
    return STATUS_OK;
}
