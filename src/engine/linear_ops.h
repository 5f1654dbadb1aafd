#pragma once

#include <ggml.h>

#include <functional>
#include <utility>

#include "model/block_matrix.h"

namespace pith {

/// Products of a graph with weight matrices: ggml's, but with weights that pith's own kernel takes
/// two custom nodes: one rounds the activations, once for all products that read them, the other
/// multiplies.
class LinearOps {
 public:
  /// The matrix that stands for a weight; null where ggml is to multiply.
  using Blocks = std::function<const BlockMatrix*(const ggml_tensor*)>;

  explicit LinearOps(Blocks blocks) : blocks_(std::move(blocks)) {}

  /// Called once before a new graph is built.
  void begin() { rounded_of_ = nullptr; }

  /// w x [w rows, n_tokens] of w [depth, rows] and x [depth, n_tokens], F32 and contiguous.
  ggml_tensor* build(ggml_context* ctx, ggml_tensor* w, ggml_tensor* x);

 private:
  static void round_tokens(ggml_tensor* dst, int ith, int nth, void* userdata);
  static void multiply(ggml_tensor* dst, int ith, int nth, void* userdata);

  Blocks blocks_;
  const ggml_tensor* rounded_of_ = nullptr;  // what `rounded_` was made of, in the current graph
  ggml_tensor* rounded_ = nullptr;
};

}  // namespace pith
