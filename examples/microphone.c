/* Keywords on a board: samples come in buffers, as DMA fills them; a class comes out every half second.
 *
 *     hadamrnn models keywords-5kb --out models
 *     hadamrnn export models/keywords-5kb.int.safetensors --to c --out keywords_c --name keywords
 *     cc -Ikeywords_c examples/microphone.c keywords_c/keywords.c keywords_c/keywords_window.c \
 *         keywords_c/keywords_signal.c -o microphone
 *
 * Here a buffer is filled from standard input: 16 kHz, int16. No heap, no floating point.
 */
#include <stdio.h>
#include "keywords_signal.h"

enum { FRAMES = 98, HOP = 49, BUFFER = 256 };

static keywords_signal stream;
static keywords_slot slots[FRAMES / HOP];
static const char *const names[] = KEYWORDS_CLASS_NAMES;

int main(void)
{
    int16_t buffer[BUFFER];
    size_t count;
    if (keywords_signal_init(&stream, slots, FRAMES, HOP) != HADAMRNN_OK)
        return 1;
    while ((count = fread(buffer, sizeof buffer[0], BUFFER, stdin)) > 0)
        for (size_t i = 0; i < count; i++)
            if (keywords_push_sample(&stream, buffer[i]) == HADAMRNN_READY)
                printf("%s\n", names[keywords_signal_class(&stream)]);
    return 0;
}
