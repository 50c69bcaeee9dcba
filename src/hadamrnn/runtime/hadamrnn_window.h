/* hadamrnn_window.h: sliding windows: a read-out every `hop` steps, of exactly the last `size` ones.
 *
 * size / hop states read the stream: each begins `hop` steps after the previous one, and restarts once it has been read.
 * State 0 is the window's own, the slots are the others. NAME_window_push is the loop:
 *
 *     for every i < hadamrnn_window_states: step state i
 *     if hadamrnn_window_hop_ends:
 *         if hadamrnn_window_is_whole: read state hadamrnn_window_turn
 *         hadamrnn_window_restart of state hadamrnn_window_turn
 *
 * Include it as hadamrnn.h, which it includes: with HADAMRNN_SPECIALISED defined for the functions.
 */
#ifndef HADAMRNN_WINDOW_H
#define HADAMRNN_WINDOW_H

#include "hadamrnn.h"

/* A sliding window: size / hop hops of `hop` steps. */
typedef struct {
    uint16_t hops; /* size / hop */
    uint16_t begun; /* hops of the first window that have begun */
    uint16_t hop; /* 0: refused */
    uint16_t steps; /* since the last hop ended */
    uint16_t oldest; /* state: 0 is the window's own, then come the slots */
    uint16_t is_ready; /* 1 once the first window is complete */
    uint32_t clipped; /* raw codes clipped since init */
} hadamrnn_window;

#endif

#if (defined(HADAMRNN_SPECIALISED) || defined(HADAMRNN_SHARED)) && !defined(HADAMRNN_WINDOW_CODE)
#define HADAMRNN_WINDOW_CODE

#include "hadamrnn.h"

/* Start a window. Return HADAMRNN_OK or HADAMRNN_BAD_WINDOW. */
HADAMRNN_API uint8_t hadamrnn_window_init(const hadamrnn_model *model, hadamrnn_window *window, uint16_t size,
                                             uint16_t hop, bool has_slots)
{
    const uint16_t longest = (model->longest == 0u) ? UINT16_MAX : model->longest;
    const bool lacks_slots = !has_slots && (size != hop);
    (void)memset(window, 0, sizeof *window);
    if ((hop == 0u) || (size == 0u) || (size > longest) || ((size % hop) != 0u) || lacks_slots) {
        return HADAMRNN_BAD_WINDOW;
    }
    window->hops = (uint16_t)(size / hop);
    window->begun = 1;
    window->hop = hop;
    return HADAMRNN_OK;
}

/* The number of states that read the next input. */
HADAMRNN_INLINE uint16_t hadamrnn_window_states(const hadamrnn_window *window)
{
    return window->begun;
}

/* Count a step. Return 1 if a hop ends with it. */
HADAMRNN_INLINE bool hadamrnn_window_hop_ends(hadamrnn_window *window)
{
    window->steps++;
    if (window->steps == window->hop) {
        window->steps = 0;
    }
    return window->steps == 0u;
}

/* The state to read, or to start, when a hop ends. */
HADAMRNN_INLINE uint16_t hadamrnn_window_turn(const hadamrnn_window *window)
{
    return (window->begun < window->hops) ? window->begun : window->oldest;
}

/* A hop has ended. Return 1 if a window ends with it. */
HADAMRNN_INLINE bool hadamrnn_window_is_whole(hadamrnn_window *window)
{
    const bool is_whole = window->begun == window->hops;
    if (is_whole) {
        window->is_ready = 1;
    }
    return is_whole;
}

/* Restart the state that was read. */
HADAMRNN_INLINE void hadamrnn_window_restart(const hadamrnn_model *model, hadamrnn_window *window,
                                             const hadamrnn_memory *memory)
{
    hadamrnn_init(model, memory);
    if (window->begun < window->hops) {
        window->begun++;
    } else {
        window->oldest++;
        if (window->oldest >= window->hops) {
            window->oldest = 0;
        }
    }
}

#endif
