/* hadamrnn_window.h: sliding windows: every `hop` steps, a read-out of exactly the last `size` steps.
 *
 * size / hop states read the stream: each begins `hop` steps after the previous one, and restarts once it has been read.
 * NAME_window_push is the loop:
 *
 *     for every i < window.begun: step state i
 *     if hadamrnn_window_hop_ends:
 *         if window.is_ready: read state window.turn
 *         hadamrnn_window_restart of state window.turn
 *
 * Include it as hadamrnn.h, which it includes: with HADAMRNN_SPECIALISED defined for the functions.
 */
#ifndef HADAMRNN_WINDOW_H
#define HADAMRNN_WINDOW_H

#include "hadamrnn.h"

/* A sliding window: size / hop hops of `hop` steps. */
typedef struct {
    uint16_t hops; /* size / hop, which is also the number of states */
    uint16_t begun; /* states that read the stream */
    uint16_t hop; /* 0: refused */
    uint16_t steps; /* since the last hop ended */
    uint16_t turn; /* the state to read, or only to start, when a hop ends */
    uint16_t is_ready; /* 1 once the first window is complete */
    uint32_t clipped; /* raw codes clipped since init */
} hadamrnn_window;

#endif

#if (defined(HADAMRNN_SPECIALISED) || defined(HADAMRNN_SHARED)) && !defined(HADAMRNN_WINDOW_CODE)
#define HADAMRNN_WINDOW_CODE

#include "hadamrnn.h"

/* Start a window. Return HADAMRNN_OK or HADAMRNN_BAD_WINDOW. */
HADAMRNN_API uint8_t hadamrnn_window_init(const hadamrnn_model *model, hadamrnn_window *window, uint16_t size, uint16_t hop)
{
    const uint16_t longest = (model->longest == 0u) ? UINT16_MAX : model->longest;
    (void)memset(window, 0, sizeof *window);
    if ((hop == 0u) || (size == 0u) || (size > longest) || ((size % hop) != 0u)) {
        return HADAMRNN_BAD_WINDOW;
    }
    window->hops = (uint16_t)(size / hop);
    window->begun = 1;
    window->hop = hop;
    if (window->hops > 1u) {
        window->turn = 1;
    }
    return HADAMRNN_OK;
}

/* Count a step. Return whether a hop ends with it; a window ends too once is_ready is 1. */
HADAMRNN_INLINE bool hadamrnn_window_hop_ends(hadamrnn_window *window)
{
    window->steps++;
    const bool ends = window->steps == window->hop;
    if (ends) {
        window->steps = 0;
        if (window->begun == window->hops) {
            window->is_ready = 1;
        }
    }
    return ends;
}

/* Restart the state `turn`, which is in `memory`. */
HADAMRNN_INLINE void hadamrnn_window_restart(const hadamrnn_model *model, hadamrnn_window *window,
                                             const hadamrnn_memory *memory)
{
    hadamrnn_init(model, memory);
    if (window->begun < window->hops) {
        window->begun++;
    }
    window->turn++;
    if (window->turn == window->hops) {
        window->turn = 0;
    }
}

#endif
