#include "engine/engine.h"

#include <ggml-cpp.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/timer.h"
#include "engine/graph.h"

namespace pith {
namespace {

struct ThreadpoolDeleter {
  void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
};

void set_ints(ggml_tensor* t, std::span<const int32_t> values) {
  if (t != nullptr) ggml_backend_tensor_set(t, values.data(), 0, values.size_bytes());
}

void set_floats(ggml_tensor* t, std::span<const float> values) {
  if (t != nullptr) ggml_backend_tensor_set(t, values.data(), 0, values.size_bytes());
}

/// Appends rows of `t` [width, n] at the given indices to `out`.
void append_rows(const ggml_tensor* t, std::span<const int32_t> rows, std::vector<float>& out) {
  const auto width = size_t(t->ne[0]);
  const size_t start = out.size();
  out.resize(start + rows.size() * width);
  for (size_t i = 0; i < rows.size(); ++i) {
    ggml_backend_tensor_get(t, out.data() + start + i * width, size_t(rows[i]) * t->nb[1],
                            width * sizeof(float));
  }
}

/// first, first + 1, ..
std::vector<int32_t> counted_from(int32_t first, int count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Sorted union of two ascending lists, and where each of their members went.
struct OutputRows {
  std::vector<int32_t> all, logits, observed;

  OutputRows(std::span<const int32_t> logit_rows, std::span<const int32_t> observe_rows) {
    std::set_union(logit_rows.begin(), logit_rows.end(), observe_rows.begin(), observe_rows.end(),
                   std::back_inserter(all));
    logits = places(logit_rows);
    observed = places(observe_rows);
  }

 private:
  std::vector<int32_t> places(std::span<const int32_t> rows) const {
    std::vector<int32_t> out;
    for (const int32_t r : rows) {
      out.push_back(int32_t(std::lower_bound(all.begin(), all.end(), r) - all.begin()));
    }
    return out;
  }
};

}  // namespace

struct Engine::Impl {
  std::shared_ptr<const ModelWeights> weights;
  EngineOptions options;
  ggml_backend_ptr backend;
  std::unique_ptr<ggml_threadpool, ThreadpoolDeleter> pool;
  std::unique_ptr<AttentionOps> ops;
  std::optional<Graph> graph;  // the last one built

  void check(const KvCache& cache, const Step& step) const;
  void prepare(KvCache& cache, const GraphKey& key);
  void compute();
  void observe(std::span<const int32_t> query_rows, std::span<const int32_t> positions,
               Observation& seen);

  double observe_s = 0;
};

Engine::Engine(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->weights = std::move(weights);
  impl_->options = options;
  impl_->backend.reset(ggml_backend_cpu_init());
  ggml_threadpool_params params = ggml_threadpool_params_default(options.threads);
  impl_->pool.reset(ggml_threadpool_new(&params));
  if (!impl_->backend || !impl_->pool) {
    throw Error(ErrorCode::memory, "ggml's CPU backend could not start " +
                                       std::to_string(options.threads) + " threads");
  }
  ggml_backend_cpu_set_n_threads(impl_->backend.get(), options.threads);
  ggml_backend_cpu_set_threadpool(impl_->backend.get(), impl_->pool.get());
  const ModelConfig& config = impl_->weights->config();
  impl_->ops = options.attention == AttentionPath::ragged
                   ? make_ragged_ops(config, options.threads)
                   : make_portable_ops(config, options.attention == AttentionPath::portable);
}

Engine::~Engine() = default;

const ModelWeights& Engine::weights() const { return *impl_->weights; }
const EngineOptions& Engine::options() const { return impl_->options; }

int Engine::max_tokens(const KvCache& cache) const {
  return impl_->ops->max_tokens(cache, impl_->options.n_ubatch);
}

double Engine::attention_seconds() const { return impl_->ops->seconds(); }
double Engine::observe_seconds() const { return impl_->observe_s; }

std::string Engine::backend() const {
  return std::string(ggml_backend_name(impl_->backend.get())) + ", " +
         std::string(kAttentionPathNames[size_t(impl_->options.attention)]) + " attention";
}

void Engine::Impl::check(const KvCache& cache, const Step& step) const {
  const ModelShape& shape = weights->config().shape;
  const CacheGeometry& g = cache.geometry();
  if (g.n_layer != shape.n_layer || g.n_head_kv != shape.n_head_kv ||
      g.head_dim != shape.head_dim) {
    throw Error(ErrorCode::internal, "the cache was made for another model");
  }
  if (step.tokens.empty() || int(step.tokens.size()) > ops->max_tokens(cache, options.n_ubatch)) {
    throw Error(ErrorCode::internal, "a step takes 1 to max_tokens() tokens");
  }
  if (step.shift != nullptr && step.shift->values.size() != step.tokens.size() *
                                                                size_t(shape.n_head) *
                                                                size_t(shape.head_dim)) {
    throw Error(ErrorCode::internal, "a shift has one number for each number of the attention");
  }
  for (const int32_t token : step.tokens) {
    if (token < 0 || token >= shape.n_vocab) {
      throw Error(ErrorCode::usage, "token " + std::to_string(token) +
                                        " is not in the model's vocabulary of " +
                                        std::to_string(shape.n_vocab));
    }
  }
}

void Engine::Impl::prepare(KvCache& cache, const GraphKey& key) {
  if (graph && graph->key == key) return;
  graph.reset();  // its memory goes before the next graph's comes
  graph.emplace(build_graph(*weights, key, *ops, cache));
}

void Engine::Impl::compute() {
  const ggml_status status = ggml_backend_graph_compute(backend.get(), graph->nodes);
  if (status != GGML_STATUS_SUCCESS) {
    throw Error(status == GGML_STATUS_ALLOC_FAILED ? ErrorCode::memory : ErrorCode::internal,
                std::string("the model's graph failed: ") + ggml_status_to_string(status));
  }
}

/// Appends `query_rows` of the observed queries, which belong to `positions`.
void Engine::Impl::observe(std::span<const int32_t> query_rows, std::span<const int32_t> positions,
                           Observation& seen) {
  const Timer timer;
  seen.query.resize(graph->query.size());
  for (size_t il = 0; il < graph->query.size(); ++il) {
    append_rows(graph->query[il], query_rows, seen.query[il]);
  }
  seen.positions.insert(seen.positions.end(), positions.begin(), positions.end());
  observe_s += timer.seconds();
}

void Engine::run(KvCache& cache, const Step& step, std::vector<float>& logits, Observation* seen,
                 Observation* queries) {
  impl_->check(cache, step);
  const int n = int(step.tokens.size());
  cache.check_append(n);
  const OutputRows rows(step.logit_rows, step.observe_rows);
  const std::vector<int32_t> all = counted_from(0, n);
  const std::span<const int32_t> observed = queries != nullptr ? all : step.observe_rows;
  impl_->prepare(cache, {.n_tokens = n,
                         .n_out = int(rows.all.size()),
                         .n_observe = int(observed.size()),
                         .shift_layer = step.shift != nullptr ? step.shift->layer : -1,
                         .attention = impl_->ops->signature(cache, n)});
  const Graph& graph = *impl_->graph;
  const std::vector<int32_t> positions = counted_from(cache.next_position(), n);
  set_ints(graph.tokens, step.tokens);
  set_ints(graph.positions, positions);
  set_ints(graph.out_rows, rows.all);
  set_ints(graph.observe_rows, observed);
  if (step.shift != nullptr) set_floats(graph.shift, step.shift->values);
  impl_->ops->bind(cache, n);
  impl_->compute();
  logits.clear();
  if (!rows.logits.empty()) append_rows(graph.logits, rows.logits, logits);
  if (queries != nullptr) impl_->observe(all, positions, *queries);
  if (!rows.observed.empty() && seen != nullptr) {
    std::vector<int32_t> seen_positions;
    for (const int32_t row : step.observe_rows) seen_positions.push_back(positions[size_t(row)]);
    const auto first = counted_from(0, int(step.observe_rows.size()));
    impl_->observe(queries != nullptr ? step.observe_rows : first, seen_positions, *seen);
    append_rows(graph.residual, rows.observed, seen->residual);
    append_rows(graph.logits, rows.observed, seen->logits);
  }
  cache.commit_append(n);
}

}  // namespace pith
