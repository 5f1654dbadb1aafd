#include "session/session.h"

#include <algorithm>
#include <numeric>

#include "base/system.h"
#include "base/timer.h"
#include "build_info.hpp"
#include "pith/calibration.hpp"
#include "policy/abstain.h"
#include "policy/protection.h"

namespace pith {
namespace {

SessionOptions with_defaults(SessionOptions options, const Model& model) {
  if (options.threads <= 0) options.threads = physical_cores();
  if (options.n_ctx <= 0) options.n_ctx = model.n_ctx_train();
  if (options.n_ubatch <= 0) throw Error(ErrorCode::usage, "the ubatch must be at least 1 token");
  if (options.max_risk && !(*options.max_risk > 0)) {
    throw Error(ErrorCode::usage, "the largest risk must be above 0");
  }
  return options;
}

CacheGeometry geometry_of(const ModelShape& shape, const SessionOptions& options) {
  return {.n_layer = shape.n_layer,
          .n_head_kv = shape.n_head_kv,
          .head_dim = shape.head_dim,
          .k_type = options.k_type,
          .v_type = options.v_type,
          .n_ctx = options.n_ctx};
}

/// Bytes that a position's queries take in an Observation.
size_t query_bytes(const ModelShape& shape) {
  return size_t(shape.n_layer) * size_t(shape.n_head) * size_t(shape.head_dim) * sizeof(float);
}

/// Drops observed rows of one part from the front (keep) or from the back.
void keep_rows(std::vector<float>& values, size_t rows, size_t first, size_t count) {
  const size_t width = rows == 0 ? 0 : values.size() / rows;
  values.erase(values.begin() + int64_t((first + count) * width), values.end());
  values.erase(values.begin(), values.begin() + int64_t(first * width));
}

void keep_observed(Observation& seen, size_t first, size_t count) {
  const size_t rows = seen.positions.size();
  for (auto& q : seen.query) keep_rows(q, rows, first, count);
  keep_rows(seen.residual, rows, first, count);
  keep_rows(seen.logits, rows, first, count);
  seen.positions.erase(seen.positions.begin() + int64_t(first + count), seen.positions.end());
  seen.positions.erase(seen.positions.begin(), seen.positions.begin() + int64_t(first));
}

void keep_before(Observation& seen, int32_t position) {
  const auto stays = std::lower_bound(seen.positions.begin(), seen.positions.end(), position);
  keep_observed(seen, 0, size_t(stays - seen.positions.begin()));
}

/// A calibration that is given must be of this model.
void check_calibration(const Calibration* calibration, const Model& model) {
  if (calibration == nullptr || calibration->model_hash == model.impl()->weights->hash()) return;
  throw Error(ErrorCode::usage, "the calibration is of another model (" + calibration->model_hash +
                                    ", not " + model.impl()->weights->hash() + ")");
}

}  // namespace

std::vector<int32_t> indices(int32_t first, size_t count) {
  std::vector<int32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

void report_share(const Progress& progress, double share) {
  if (progress && !progress(share)) throw Error(ErrorCode::interrupted, "interrupted");
}

Progress part_of(const Progress& whole, double from, double to) {
  if (!whole) return {};
  return [whole, from, to](double share) { return whole(from + share * (to - from)); };
}

SessionImpl::SessionImpl(const Model& m, const SessionOptions& o)
    : model(m),
      options(with_defaults(o, m)),
      engine(std::make_shared<Engine>(m.impl()->weights,
                                      EngineOptions{.threads = options.threads,
                                                    .n_ubatch = options.n_ubatch,
                                                    .attention = options.attention})),
      cache(geometry_of(m.shape(), options)) {
  check_calibration(options.calibration.get(), m);
  done.policy = "full";
  done.time_s.load = m.impl()->load_s;
  done.notes = options.notes;
  if (options.n_ctx > m.n_ctx_train()) {
    done.notes.push_back("the context of " + std::to_string(options.n_ctx) +
                         " tokens is past the " + std::to_string(m.n_ctx_train()) +
                         " that the model was trained on");
  }
}

SessionImpl::SessionImpl(const SessionImpl& other)
    : model(other.model),
      options(other.options),
      engine(other.engine),
      cache(other.cache.fork()),
      tokens(other.tokens),
      seen(other.seen),
      prompt(other.prompt),
      future(other.future),
      repeated(other.repeated),
      ahead(other.ahead),
      logits(other.logits),
      done(other.done),
      compressed(other.compressed),
      generating(other.generating) {}

std::unique_ptr<SessionImpl> SessionImpl::fork() const {
  return std::unique_ptr<SessionImpl>(new SessionImpl(*this));
}

void SessionImpl::check_fits(size_t n_tokens) const {
  const int64_t room = int64_t(options.n_ctx) - cache.next_position();
  if (int64_t(n_tokens) > room) {
    throw Error(ErrorCode::memory, std::to_string(n_tokens) +
                                       " tokens do not fit: the context holds " +
                                       std::to_string(options.n_ctx) + " and " +
                                       std::to_string(cache.next_position()) +
                                       " are taken; a larger context (-c) would do");
  }
  if (generating) n_tokens = std::min(n_tokens, size_t(generating->options.kept));
  check_memory(n_tokens * size_t(model.shape().n_rows()) * counted_entry_bytes(cache.geometry()),
               "the cache of " + std::to_string(n_tokens) + " tokens");
}

void SessionImpl::check_memory(size_t bytes, const std::string& what) const {
  const int64_t available = available_memory_bytes();
  if (int64_t(bytes) <= available) return;
  throw Error(ErrorCode::memory, what + " takes " + std::to_string(bytes >> 20) + " MiB and only " +
                                     std::to_string(available >> 20) + " MiB of memory are free");
}

/// The observed prompt to write to: a copy where forks share it.
Observation& SessionImpl::own_prompt() {
  if (prompt.use_count() > 1) prompt = std::make_shared<Observation>(*prompt);
  return *prompt;
}

FutureSample& SessionImpl::own_future() {
  if (future.use_count() > 1) future = std::make_shared<FutureSample>(*future);
  return *future;
}

void SessionImpl::note_tokens(std::span<const int32_t> read_tokens) {
  tokens.insert(tokens.end(), read_tokens.begin(), read_tokens.end());
  forget_passes();
}

/// Reads tokens and observes those from `observe_from` on; of positions `sampled` the queries.
void SessionImpl::read(std::span<const int32_t> part, size_t observe_from, bool all_queries,
                       const std::vector<int32_t>& sampled) {
  const PhaseTimer timer;
  const double observed_before = engine->observe_seconds();
  const size_t first = std::min(observe_from, part.size());
  const auto all = indices(0, part.size());
  const auto future_rows = rows_among(sampled, cache.next_position(), int32_t(part.size()));
  std::vector<QueryRows> queries;
  if (all_queries) queries.push_back({own_prompt(), all});
  if (!sampled.empty()) queries.push_back({own_future().seen, future_rows});
  engine->run(cache,
              {.tokens = part,
               .logit_rows = {},
               .observe_rows = indices(int32_t(first), part.size() - first)},
              logits, &seen, queries);
  if (!sampled.empty()) future->end = cache.next_position();
  note_tokens(part);
  const double observing = engine->observe_seconds() - observed_before;
  done.time_s.observe += observing;
  done.cpu_s.observe += observing;  // one thread copies
  done.time_s.prefill += timer.seconds() - observing;
  done.cpu_s.prefill += timer.cpu_seconds() - observing;
}

void SessionImpl::prefill(std::span<const int32_t> text, const Needs& asked,
                          const Progress& progress) {
  if (text.empty()) throw Error(ErrorCode::usage, "the prompt is empty");
  check_fits(text.size());
  if (generating) return prefill_compressing(text, progress);
  const Needs need = options.max_risk ? asked | abstain_needs() : asked;
  if (need.prompt) {
    check_memory(text.size() * query_bytes(model.shape()), "the queries of the prompt");
  }
  const auto wanted = size_t(std::max(need.tail, 0));
  const size_t observe_from = text.size() - std::min(text.size(), wanted);
  std::vector<int32_t> sampled;
  if (need.future) {
    sampled = sample_positions(cache.next_position() + int32_t(text.size()));
    own_future().begin(cache.next_position());
  }
  for (size_t at = 0; at < text.size();) {
    report_share(progress, double(at) / double(text.size()));
    const size_t n = std::min(text.size() - at, size_t(engine->max_tokens(cache)));
    read(text.subspan(at, n), observe_from - std::min(observe_from, at), need.prompt, sampled);
    at += n;
    const size_t rows = std::min(seen.positions.size(), wanted);
    keep_observed(seen, seen.positions.size() - rows, rows);
  }
  if (need.future) own_future().thin(sampled);
  report_share(progress, 1);
}

std::span<const float> SessionImpl::decode(int32_t token) {
  check_fits(1);
  const PhaseTimer timer;
  const int32_t row = 0;
  run_observed({&token, 1}, {&row, 1});
  done.time_s.decode += timer.seconds();
  done.cpu_s.decode += timer.cpu_seconds();
  ++done.tokens_generated;
  compress_if_due();
  return logits;
}

std::vector<float> SessionImpl::evaluate(std::span<const int32_t> text) {
  check_fits(text.size());
  std::vector<float> all;
  all.reserve(text.size() * size_t(model.shape().n_vocab));
  for (size_t at = 0; at < text.size();) {
    const size_t n = std::min(text.size() - at, size_t(engine->max_tokens(cache)));
    run_observed(text.subspan(at, n), indices(0, n));
    all.insert(all.end(), logits.begin(), logits.end());
    at += n;
  }
  compress_if_due();
  return all;
}

void SessionImpl::trim(int32_t position) {
  cache.trim(position);
  tokens.resize(size_t(position));
  forget_passes();
  keep_before(seen, position);
  if (generating) {
    generating->from = std::min(generating->from, position);
    generating->checked = std::min(generating->checked, position);
    std::erase_if(generating->summaries, [&](const Summary& s) { return s.end > position; });
  }
  if (!prompt->positions.empty() && prompt->positions.back() >= position) {
    keep_before(own_prompt(), position);
  }
  if (future->end > position) own_future().trim(position);
}

void SessionImpl::describe_cache(Receipt& receipt) const {
  const CacheGeometry& g = cache.geometry();
  const CacheBytes bytes = cache.bytes();
  receipt.n_tokens = cache.next_position();
  receipt.entries_kept = cache.total_entries();
  receipt.bytes_kept = int64_t(bytes.total());
  receipt.resident_kept = int64_t(bytes.resident);
  receipt.kept.assign(size_t(g.n_layer), {});
  for (int il = 0; il < g.n_layer; ++il) {
    for (int h = 0; h < g.n_head_kv; ++h) receipt.kept[size_t(il)].push_back(cache.length(il, h));
  }
}

/// The cache as it is, beside what it would be if nothing had gone.
void SessionImpl::describe_whole(Receipt& receipt) const {
  describe_cache(receipt);
  receipt.entries_full = receipt.entries_kept;
  receipt.bytes_full = receipt.bytes_kept;
  receipt.resident_full = receipt.resident_kept;
  if (!generating || generating->from > 0) return;
  receipt.entries_full = int64_t{cache.next_position()} * model.shape().n_rows();
  receipt.bytes_full = receipt.entries_full * int64_t(counted_entry_bytes(cache.geometry()));
  receipt.resident_full = std::max(receipt.resident_kept, receipt.bytes_full);
}

Receipt SessionImpl::receipt() const {
  Receipt receipt = done;
  if (!compressed) describe_whole(receipt);
  receipt.decode_tok_s =
      receipt.time_s.decode > 0 ? double(receipt.tokens_generated) / receipt.time_s.decode : 0;
  receipt.peak_rss_bytes = peak_rss_bytes();
  receipt.threads = options.threads;
  receipt.backend = engine->backend();
  receipt.version = PITH_VERSION;
  receipt.commit = PITH_COMMIT;
  return receipt;
}

Session::Session(const Model& model, const SessionOptions& options)
    : impl_(std::make_unique<SessionImpl>(model, options)) {}
Session::Session(std::unique_ptr<SessionImpl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::prefill(std::span<const int32_t> tokens, const Needs& need,
                      const Progress& progress) {
  impl_->prefill(tokens, need, progress);
}

Receipt Session::compress(std::string_view policy, std::string_view budget,
                          const Progress& progress) {
  return impl_->compress(Policy::parse(policy), Budget::parse(budget), progress);
}

Receipt Session::compress_within(std::string_view policy, double max_kl, const Progress& progress) {
  return impl_->compress_within(Policy::parse(policy), max_kl, progress);
}

void Session::compress_generated(const GenerationOptions& options) {
  impl_->compress_generated(options);
}

std::span<const float> Session::decode(int32_t token) { return impl_->decode(token); }
std::vector<float> Session::evaluate(std::span<const int32_t> tokens) {
  return impl_->evaluate(tokens);
}
Session Session::fork() const { return Session(impl_->fork()); }
void Session::trim(int32_t position) { impl_->trim(position); }
int32_t Session::next_position() const { return impl_->cache.next_position(); }
const Model& Session::model() const { return impl_->model; }
Receipt Session::receipt() const { return impl_->receipt(); }

}  // namespace pith
