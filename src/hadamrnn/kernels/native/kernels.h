/* All templates, for the REAL and LANES that are defined; `instance.c` includes it once per type. */
#include "transform.h"
#include "readout.h"
#include "scan.h"
#include "adjoint.h"
#include "tiles.h"
#include "pooled.h"
#include "pooled_adjoint.h"
#include "loss.h"
