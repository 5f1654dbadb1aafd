#include "engine/linear_ops.h"

#include <ggml-backend.h>

#include <algorithm>
#include <array>

namespace pith {
namespace {

// From so many tokens on unpacking a panel pays (measured).
constexpr int kLeastTokens = 4;
// Pieces of work for each thread where rows alone give fewer, and fewest tokens of one.
constexpr int64_t kPieces = 4, kPieceTokens = 48;

bool on_host(const ggml_tensor& t) {
  return t.buffer == nullptr || ggml_backend_buffer_is_host(t.buffer);
}

bool own_kernel(const ggml_tensor& w, const ggml_tensor& x) {
  return x.ne[1] >= kLeastTokens && x.type == GGML_TYPE_F32 && ggml_is_matrix(&x) && in_blocks(w) &&
         on_host(w);
}

/// A product cut into panels of rows and, within them, runs of tokens.
struct Pieces {
  Pieces(int64_t rows, int64_t tokens, int threads)
      : panels((rows + WeightPanel::rows() - 1) / WeightPanel::rows()) {
    const int64_t wanted = (kPieces * threads + panels - 1) / panels;
    runs = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, tokens / kPieceTokens));
    run_tokens = (tokens + runs - 1) / runs;
  }
  int64_t count() const { return panels * runs; }

  int64_t panels, runs = 1, run_tokens = 0;
};

}  // namespace

ggml_tensor* LinearOps::build(ggml_context* ctx, ggml_tensor* w, ggml_tensor* x) {
  if (!own_ || !own_kernel(*w, *x)) return ggml_mul_mat(ctx, w, x);
  const int depth = int(w->ne[0]);
  if (depth > most_depth_) {  // here, because nothing may fail on ggml's threads
    panels_.assign(panels_.size(), WeightPanel(depth));
    most_depth_ = depth;
  }
  if (rounded_of_ != x) {
    rounded_ = ggml_custom_4d(ctx, GGML_TYPE_I8, int64_t(quantized_bytes(depth)), x->ne[1], 1, 1,
                              &x, 1, round_tokens, GGML_N_TASKS_MAX, nullptr);
    rounded_of_ = x;
  }
  std::array<ggml_tensor*, 2> read = {w, rounded_};
  return ggml_custom_4d(ctx, GGML_TYPE_F32, w->ne[1], x->ne[1], 1, 1, read.data(), 2, multiply,
                        GGML_N_TASKS_MAX, this);
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
  const ggml_tensor &w = *dst->src[0], &x = *dst->src[1];
  WeightPanel& panel = static_cast<LinearOps*>(userdata)->panels_[size_t(ith)];
  const Pieces pieces(w.ne[1], x.ne[1], nth);
  const int64_t first = pieces.count() * ith / nth, last = pieces.count() * (ith + 1) / nth;
  for (int64_t i = first; i < last; ++i) {
    const int64_t row = i / pieces.runs * WeightPanel::rows();
    const int64_t token = i % pieces.runs * pieces.run_tokens;
    if (i == first || token == 0) panel.unpack(w, int(row));
    const int64_t n = std::min(pieces.run_tokens, x.ne[1] - token);
    const int64_t wanted = std::min<int64_t>(WeightPanel::rows(), w.ne[1] - row);
    if (n <= 0) continue;
    auto* out = static_cast<std::byte*>(dst->data) + size_t(token) * dst->nb[1];
    panel.multiply(static_cast<const std::byte*>(x.data) + size_t(token) * x.nb[1], int(n),
                   reinterpret_cast<float*>(out) + row, dst->nb[1] / sizeof(float), int(wanted));
  }
}

}  // namespace pith
