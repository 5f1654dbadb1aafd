#pragma once

#include <ggml.h>

#include <cstddef>

#include "pith/pith.hpp"

namespace pith {

/// How ggml names a cache type. All that the cache knows of a type's layout follows from this.
ggml_type to_ggml(KvType type);

/// Whether keys of this type are kept multiplied by a Hadamard matrix (hadamard.h), and queries
/// have to be multiplied, too: without it the few large numbers of a key take all the steps.
constexpr bool keeps_keys_rotated(KvType type) { return type == KvType::q8_0; }

/// Numbers that are only kept together: a vector has a multiple of so many.
int kv_block(KvType type);

/// Bytes of a vector of `count` numbers; a multiple of the type's block for block types.
size_t kv_vector_bytes(KvType type, int count);

/// Converts `count` numbers; `in` (`out`) needs no alignment beyond that of the type's block.
void kv_from_float(KvType type, const float* in, std::byte* out, int count);
void kv_to_float(KvType type, const std::byte* in, float* out, int count);

}  // namespace pith
