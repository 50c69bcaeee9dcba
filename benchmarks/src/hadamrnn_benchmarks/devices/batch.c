/* A batch of streams, each from a zero state to its last logits: the loop a gateway would write.
   Compile with -DIDS for a network that reads ids. */
#include "net.h"

#ifdef IDS
typedef uint32_t input;
enum { STRIDE = 1 };
#define ARGUMENT(x) (*(x))
#else
typedef int16_t input;
enum { STRIDE = NET_INPUT_SIZE };
#define ARGUMENT(x) (x)
#endif

void run_batch(const input *x, int32_t *logits, long batch, long time);

void run_batch(const input *x, int32_t *logits, long batch, long time)
{
    for (long row = 0; row < batch; row++, logits += NET_OUTPUT_SIZE) {
        net_state state;
        net_init(&state);
        for (long t = 0; t < time; t++, x += STRIDE)
            net_step(&state, ARGUMENT(x));
        net_logits(&state, logits);
    }
}
