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

/// Sorted union of two ascending lists.
std::vector<int32_t> joined(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

/// Where each of `rows` is in `all`; both ascending.
std::vector<int32_t> places_in(const std::vector<int32_t>& all, std::span<const int32_t> rows) {
  std::vector<int32_t> out;
  for (const int32_t r : rows) {
    out.push_back(int32_t(std::ranges::lower_bound(all, r) - all.begin()));
  }
  return out;
}

/// What a graph is run on.
struct Inputs {
  std::span<KvCache* const> caches;  // one, or as many as tokens
  std::span<const int32_t> tokens, positions;
  std::span<const int32_t> out_rows;  // ascending, whose final state and logits are wanted
  std::span<const int32_t> observed;  // ascending, whose queries are
  const HeadShift* shift = nullptr;
};

}  // namespace

struct Engine::Impl {
  std::shared_ptr<const ModelWeights> weights;
  EngineOptions options;
  ggml_backend_ptr backend;
  std::unique_ptr<ggml_threadpool, ThreadpoolDeleter> pool;
  std::unique_ptr<LinearOps> products;
  std::unique_ptr<AttentionOps> ops;
  std::optional<Graph> graph;  // the last one built

  void check(const KvCache& cache, const Step& step) const;
  void check(std::span<const Lane> lanes) const;
  void prepare(KvCache& cache, const GraphKey& key);
  void compute(const Inputs& in);
  void run_lanes(std::span<const Lane> lanes, std::vector<float>& logits);
  void observe(const std::vector<int32_t>& observed, std::span<const int32_t> rows,
               int32_t first_position, Observation& seen);

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
  const bool own = options.attention == AttentionPath::ragged;
  LinearOps::Blocks blocks;
  if (own) blocks = [&held = *impl_->weights](const ggml_tensor* w) { return held.blocks(w); };
  impl_->products = std::make_unique<LinearOps>(std::move(blocks));
  impl_->ops = own ? make_ragged_ops(config, options.threads)
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

void Engine::Impl::check(std::span<const Lane> lanes) const {
  for (size_t i = 0; i < lanes.size(); ++i) {
    check(*lanes[i].cache, {.tokens = {&lanes[i].token, 1}});
    lanes[i].cache->check_append(1);
    for (size_t j = 0; j < i; ++j) {
      if (lanes[j].cache == lanes[i].cache) {
        throw Error(ErrorCode::internal, "two tokens at once of one cache");
      }
    }
  }
}

void Engine::Impl::prepare(KvCache& cache, const GraphKey& key) {
  if (graph && graph->key == key) return;
  graph.reset();  // its memory goes before the next graph's comes
  graph.emplace(build_graph(*weights, key, *products, *ops, cache));
}

/// Runs the graph that `in` needs, and builds it where it is not the last one.
void Engine::Impl::compute(const Inputs& in) {
  const int n = int(in.tokens.size());
  prepare(*in.caches[0], {.n_tokens = n,
                          .n_out = int(in.out_rows.size()),
                          .n_observe = int(in.observed.size()),
                          .shift_layer = in.shift != nullptr ? in.shift->layer : -1,
                          .attention = ops->signature(*in.caches[0], n)});
  set_ints(graph->tokens, in.tokens);
  set_ints(graph->positions, in.positions);
  set_ints(graph->out_rows, in.out_rows);
  set_ints(graph->observe_rows, in.observed);
  if (in.shift != nullptr) set_floats(graph->shift, in.shift->values);
  ops->bind(in.caches, n);
  const ggml_status status = ggml_backend_graph_compute(backend.get(), graph->nodes);
  if (status != GGML_STATUS_SUCCESS) {
    throw Error(status == GGML_STATUS_ALLOC_FAILED ? ErrorCode::memory : ErrorCode::internal,
                std::string("the model's graph failed: ") + ggml_status_to_string(status));
  }
}

/// Appends the queries of tokens `rows`, which are among those `observed` by the graph; token 0 is
/// at `first_position`.
void Engine::Impl::observe(const std::vector<int32_t>& observed, std::span<const int32_t> rows,
                           int32_t first_position, Observation& seen) {
  if (rows.empty()) return;
  const Timer timer;
  const auto places = places_in(observed, rows);
  seen.query.resize(graph->query.size());
  for (size_t il = 0; il < graph->query.size(); ++il) {
    append_rows(graph->query[il], places, seen.query[il]);
  }
  for (const int32_t row : rows) seen.positions.push_back(first_position + row);
  observe_s += timer.seconds();
}

void Engine::run(KvCache& cache, const Step& step, std::vector<float>& logits, Observation* seen,
                 std::span<const QueryRows> queries) {
  impl_->check(cache, step);
  const int n = int(step.tokens.size());
  cache.check_append(n);
  const std::vector<int32_t> out_rows = joined(step.logit_rows, step.observe_rows);
  std::vector<int32_t> observed(step.observe_rows.begin(), step.observe_rows.end());
  for (const QueryRows& part : queries) observed = joined(observed, part.rows);
  const int32_t first = cache.next_position();
  const std::vector<int32_t> positions = counted_from(first, n);
  KvCache* const only = &cache;
  impl_->compute({.caches = {&only, 1},
                  .tokens = step.tokens,
                  .positions = positions,
                  .out_rows = out_rows,
                  .observed = observed,
                  .shift = step.shift});
  const Graph& graph = *impl_->graph;
  logits.clear();
  if (!step.logit_rows.empty()) {
    append_rows(graph.logits, places_in(out_rows, step.logit_rows), logits);
  }
  for (const QueryRows& part : queries) impl_->observe(observed, part.rows, first, part.out);
  if (!step.observe_rows.empty() && seen != nullptr) {
    const auto states = places_in(out_rows, step.observe_rows);
    impl_->observe(observed, step.observe_rows, first, *seen);
    append_rows(graph.residual, states, seen->residual);
    append_rows(graph.logits, states, seen->logits);
  }
  cache.commit_append(n);
}

void Engine::run_together(std::span<const Lane> lanes, std::vector<float>& logits) {
  impl_->check(lanes);
  logits.clear();
  const size_t most = impl_->ops->takes_several() ? size_t(impl_->options.n_ubatch) : 1;
  for (size_t at = 0; at < lanes.size(); at += most) {
    impl_->run_lanes(lanes.subspan(at, std::min(most, lanes.size() - at)), logits);
  }
}

/// Runs a token of each cache in one pass and appends their logits to `out`.
void Engine::Impl::run_lanes(std::span<const Lane> lanes, std::vector<float>& out) {
  const auto rows = counted_from(0, int(lanes.size()));
  std::vector<KvCache*> caches;
  std::vector<int32_t> tokens, positions, observed;
  for (const int32_t row : rows) {
    const Lane& lane = lanes[size_t(row)];
    caches.push_back(lane.cache);
    tokens.push_back(lane.token);
    positions.push_back(lane.cache->next_position());
    if (lane.seen != nullptr) observed.push_back(row);
  }
  compute({.caches = caches,
           .tokens = tokens,
           .positions = positions,
           .out_rows = rows,
           .observed = observed});
  append_rows(graph->logits, rows, out);
  for (const int32_t row : observed) {
    Observation& seen = *lanes[size_t(row)].seen;
    observe(observed, {&row, 1}, positions[size_t(row)] - row, seen);
    append_rows(graph->residual, {&row, 1}, seen.residual);
    append_rows(graph->logits, {&row, 1}, seen.logits);
  }
  for (KvCache* cache : caches) cache->commit_append(1);
}

}  // namespace pith
