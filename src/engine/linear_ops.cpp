#include "engine/linear_ops.h"

#include <algorithm>

namespace pith {
namespace {

// Pieces of work for each thread where rows alone give fewer, and fewest tokens of one.
constexpr int kPieces = 4, kPieceTokens = 48;

/// A product cut into panels of rows and, within them, runs of tokens.
struct Pieces {
  Pieces(const BlockMatrix& matrix, int tokens, int threads) : panels(matrix.panels()) {
    const int wanted = (kPieces * threads + panels - 1) / panels;
    runs = std::clamp(wanted, 1, std::max(1, tokens / kPieceTokens));
    run_tokens = (tokens + runs - 1) / runs;
  }
  int count() const { return panels * runs; }

  int panels, runs = 1, run_tokens = 0;
};

}  // namespace

ggml_tensor* LinearOps::build(ggml_context* ctx, ggml_tensor* w, ggml_tensor* x) {
  const BlockMatrix* matrix = blocks_ ? blocks_(w) : nullptr;
  if (matrix == nullptr) return ggml_mul_mat(ctx, w, x);
  if (rounded_of_ != x) {
    rounded_ = ggml_custom_4d(ctx, GGML_TYPE_I8, int64_t(quantized_bytes(matrix->depth())),
                              x->ne[1], 1, 1, &x, 1, round_tokens, GGML_N_TASKS_MAX, nullptr);
    rounded_of_ = x;
  }
  // ggml hands userdata on as it is; nothing writes to the matrix.
  return ggml_custom_4d(ctx, GGML_TYPE_F32, w->ne[1], x->ne[1], 1, 1, &rounded_, 1, multiply,
                        GGML_N_TASKS_MAX, const_cast<BlockMatrix*>(matrix));
}

void LinearOps::round_tokens(ggml_tensor* dst, int ith, int nth, void*) {
  const ggml_tensor& x = *dst->src[0];
  const int64_t n = x.ne[1], first = n * ith / nth, last = n * (ith + 1) / nth;
  for (int64_t t = first; t < last; ++t) {
    const auto* row = static_cast<const std::byte*>(x.data) + size_t(t) * x.nb[1];
    quantize_row(reinterpret_cast<const float*>(row), int(x.ne[0]),
                 static_cast<std::byte*>(dst->data) + size_t(t) * dst->nb[1]);
  }
}

void LinearOps::multiply(ggml_tensor* dst, int ith, int nth, void* userdata) {
  const auto& matrix = *static_cast<const BlockMatrix*>(userdata);
  const ggml_tensor& x = *dst->src[0];
  const auto stride = size_t(dst->ne[0]);
  const int n_tokens = int(x.ne[1]);
  const Pieces pieces(matrix, n_tokens, nth);
  const int first = pieces.count() * ith / nth, last = pieces.count() * (ith + 1) / nth;
  for (int i = first; i < last; ++i) {
    const int panel = i / pieces.runs, token = i % pieces.runs * pieces.run_tokens;
    const int n = std::min(pieces.run_tokens, n_tokens - token);
    if (n <= 0) continue;  // the last run of a panel may be empty
    matrix.multiply(
        panel, static_cast<const std::byte*>(x.data) + size_t(token) * x.nb[1], n,
        static_cast<float*>(dst->data) + size_t(token) * stride + panel * BlockMatrix::panel_rows(),
        stride);
  }
}

}  // namespace pith
