#pragma once

#include <gguf.h>

namespace pith {

/// Checks a GGUF header's tokenizer for what libllama asserts or takes on trust, before libllama
/// loads it. Throws Error(bad_file), and Error(unsupported) for a kind of tokenizer that no
/// supported architecture has.
void check_tokenizer(const gguf_context* header);

}  // namespace pith
