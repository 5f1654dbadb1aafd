#include "engine/profile.h"

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/timer.h"
#include "engine/linear_ops.h"

namespace pith {
namespace {

/// Products of every weight matrix with inputs of its width, independent of each other.
std::vector<ggml_tensor*> products(ggml_context* ctx, const ModelWeights& weights, LinearOps& ops,
                                   int n_tokens) {
  std::vector<ggml_tensor*> nodes;
  auto add = [&](ggml_tensor* w, int n) {
    ggml_tensor* x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], n);
    ggml_set_input(x);
    nodes.push_back(ops.build(ctx, w, x));
  };
  for (int il = 0; il < weights.config().shape.n_layer; ++il) {
    const LayerWeights& w = weights.layer(il);
    for (ggml_tensor* t : {w.wq, w.wk, w.wv, w.wo, w.gate, w.up, w.down}) add(t, n_tokens);
  }
  add(weights.output(), 1);
  return nodes;
}

}  // namespace

double products_seconds(const ModelWeights& weights, int n_tokens, int threads, int repeats) {
  const size_t most = size_t(weights.config().shape.n_layer + 1) * 16;
  const ggml_context_ptr ctx(ggml_init(
      {.mem_size = most * 2 * ggml_tensor_overhead() + ggml_graph_overhead_custom(most, false),
       .mem_buffer = nullptr,
       .no_alloc = true}));
  ggml_cgraph* graph = ggml_new_graph_custom(ctx.get(), most, false);
  LinearOps ops([&](const ggml_tensor* w) { return weights.blocks(w); });
  for (ggml_tensor* node : products(ctx.get(), weights, ops, n_tokens)) {
    ggml_build_forward_expand(graph, node);
  }
  const ggml_gallocr_ptr memory(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  const ggml_backend_ptr backend(ggml_backend_cpu_init());
  if (!ggml_gallocr_alloc_graph(memory.get(), graph)) {
    throw Error(ErrorCode::memory, "no memory to time the weight products");
  }
  ggml_backend_cpu_set_n_threads(backend.get(), threads);
  for (ggml_tensor* t = ggml_get_first_tensor(ctx.get()); t != nullptr;
       t = ggml_get_next_tensor(ctx.get(), t)) {
    if ((t->flags & GGML_TENSOR_FLAG_INPUT) != 0)
      ggml_backend_tensor_memset(t, 0, 0, ggml_nbytes(t));
  }
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const Timer timer;
    ggml_backend_graph_compute(backend.get(), graph);
    best = std::min(best, timer.seconds());
  }
  return best;
}

}  // namespace pith
