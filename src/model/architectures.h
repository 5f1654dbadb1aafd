#pragma once

#include <ggml.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/weights.h"

namespace pith {

/// A size of the model that a tensor's shape names.
enum class Extent { one, embd, ff, queries, keys, vocab, rope_pairs };

/// A tensor of every layer: its name after "blk.N.", its shape and where it is bound.
struct LayerTensor {
  const char* name;
  Extent columns;  ///< ne[0]
  Extent rows;     ///< ne[1]; `one` for a vector
  bool required;
  ggml_tensor* LayerWeights::* member;
};

/// What pith needs to know of an architecture beyond the common GGUF keys. Adding one that differs
/// no further: one row in architectures.cpp.
struct Architecture {
  std::string_view name;  ///< general.architecture
  int rope_type;          ///< GGML_ROPE_TYPE_*
  std::span<const LayerTensor> layer;
  /// Layer tensors that change the result and that the engine does not run; a file that has one is
  /// refused.
  std::span<const char* const> refused;
};

/// Throws Error(unsupported) listing the known ones.
const Architecture& find_architecture(std::string_view name);

/// Elements along an extent.
int64_t extent_size(const ModelConfig& config, Extent extent);

/// "blk.<layer>.<name>"
std::string layer_tensor_name(int layer, std::string_view name);

}  // namespace pith
