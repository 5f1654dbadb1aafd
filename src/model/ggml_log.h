#pragma once

namespace pith {

/// Makes ggml and libllama silent for the whole process (errors reach the caller as Error). Cheap
/// to call again; every constructor that first touches either library calls it.
void silence_ggml();

}  // namespace pith
