#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/error.hpp"
#include "pith/policy.hpp"

/// pith in one page: load a Model, open a Session, read a prompt, compress, go on.
///
///     pith::Model model = pith::Model::load("model.gguf");
///     pith::Session session(model);
///     session.prefill(model.tokenize(text));
///     pith::Receipt receipt = session.compress("behavior", "10%");
///     auto logits = session.decode(token);
namespace pith {

/// How the numbers of cached keys and values are kept.
enum class KvType {
  f32,
  f16,
  q8_0  ///< bytes, with an F16 scale for every 32: 8.5 bits a number; head_dim a multiple of 32
};
/// Names of the above, in their order.
inline constexpr std::array<std::string_view, 3> kKvTypeNames = {"f32", "f16", "q8_0"};

/// How attention over the cache is computed.
enum class AttentionPath {
  ragged,    ///< pith's own kernel over the ragged rows: F32 sums, exact log-weights, the fastest;
             ///< products with Q4_1 weights are its own too, not ggml's
  portable,  ///< flash attention of any ggml backend, KV heads on dimension 3; log-weights in F16
  products   ///< matrix products around a softmax, as libllama computes with flash attention off
};
/// Names of the above, in their order.
inline constexpr std::array<std::string_view, 3> kAttentionPathNames = {"ragged", "portable",
                                                                        "products"};

struct ModelOptions {
  bool dequantize_weights = false;  ///< hold every weight as F32 (`--weights f32`)
  bool repack = true;               ///< use ggml's faster weight layouts where it offers them
};

struct SessionOptions {
  int threads = 0;     ///< 0: physical cores
  int n_ctx = 0;       ///< most positions the session can hold; 0: the model's trained context
  int n_ubatch = 512;  ///< tokens run through the graph at once in prefill
  KvType k_type = KvType::f16;
  KvType v_type = KvType::f16;
  AttentionPath attention = AttentionPath::ragged;
  size_t scratch_bytes = size_t{1} << 30;
  Protection protection = {-1, -1};  ///< negative: the default that fits the budget
  /// For policies that use one (`Needs::calibration`); without it they treat all heads alike, and
  /// the receipt says so. Of another model: Error(usage).
  std::shared_ptr<const Calibration> calibration = nullptr;
  /// Abstain: compress() keeps every head whole, beyond the budget, whose plan is estimated to err
  /// by more than this part of what the head answers (BudgetRisk::plan_error in risk.hpp, future
  /// queries); the receipt says which. prefill() observes queries of the prompt for it.
  /// compress_generated(), whose bound goes first, does not look at it. None: no limit. Not above
  /// 0: Error(usage).
  std::optional<double> max_risk = {};
  std::vector<std::string> notes = {};  ///< what the caller has to say in every receipt
};

/// Which entries compete while a session goes on.
enum class Pool {
  rolling,  ///< all that stayed, with what came since
  counter   ///< a binary counter of summaries: what came since, merged with summaries of as many
            ///< blocks as it stands for, so that an entry is judged anew log2(blocks) times at most
};
/// Names of the above, in their order.
inline constexpr std::array<std::string_view, 2> kPoolNames = {"rolling", "counter"};

/// Compression while a session goes on, see Session::compress_generated.
struct GenerationOptions {
  std::string policy = "sensitivity+smooth(kernel=5)+shares";
  int kept = 512;   ///< most entries that stay of what follows, on average a layer and KV head
  int every = 128;  ///< tokens from one compression to the next
  int window = 64;  ///< newest entries of each head that no compression evicts
  Pool pool = Pool::rolling;
};

/// Share done (0..1) of the running phase; returning false stops with ErrorCode::interrupted.
using Progress = std::function<bool(double)>;

/// Seconds spent in each phase.
struct PhaseTimes {
  double load = 0, prefill = 0, observe = 0, score = 0, select = 0, apply = 0, decode = 0;
};

/// What compression while generating has done so far.
struct GenerationReceipt {
  std::string policy;  ///< full spec; empty where it was never turned on
  int kept = 0, every = 0, window = 0;
  Pool pool = Pool::rolling;
  int64_t compressions = 0, entries_evicted = 0;
};

/// A budget that a search tried, and what it did to the predictions of the prompt's last tokens.
struct TriedBudget {
  std::string budget;
  double kl = 0;  ///< mean KL against the full cache, nats
};

/// How Session::compress_within chose the budget.
struct MaxKlReceipt {
  double asked = 0;
  double measured = 0;             ///< mean KL at the budget; 0 where the whole cache stays
  std::string budget;              ///< 100%: the whole cache stays
  int tokens = 0;                  ///< over which the KL is the mean
  double seconds = 0;              ///< that the search took; not part of the other times
  std::vector<TriedBudget> tried;  ///< in their order
};

/// What was really done; every run and result file carries it. Field names are those of the JSON.
struct Receipt {
  std::string policy;  ///< full spec with all defaults
  std::string budget_requested;
  int64_t n_tokens = 0;
  int64_t entries_full = 0, entries_kept = 0, entries_protected = 0;
  int64_t bytes_full = 0, bytes_kept = 0;        ///< keys, values, positions, log-weights
  int64_t resident_full = 0, resident_kept = 0;  ///< pages the cache's allocator holds
  size_t scratch_peak = 0;  ///< working memory of scoring, queries held for it counted, bytes
  std::vector<std::vector<int>> kept;  ///< [n_layer][n_head_kv]
  PhaseTimes time_s;
  PhaseTimes cpu_s;  ///< CPU time of all threads in the same phases
  GenerationReceipt generation;
  std::optional<MaxKlReceipt> max_kl;  ///< where a search chose the budget
  int64_t tokens_generated = 0;
  double decode_tok_s = 0;
  int64_t peak_rss_bytes = 0;
  int threads = 0;
  std::string backend, version, commit;
  std::vector<std::string> notes;
};

class ModelImpl;
class SessionImpl;

/// A GGUF model, its vocabulary and its chat template. Cheap to copy; shared by its sessions.
class Model {
 public:
  /// Throws Error(io, bad_file, unsupported, memory). Every tensor is checked before use.
  static Model load(const std::string& path, const ModelOptions& options = {});

  const ModelShape& shape() const;
  int n_ctx_train() const;
  /// Tokens of UTF-8 `text`; with `special`, text like <|im_start|> becomes its control token and
  /// the model's begin-of-sequence token is put first where it wants one.
  std::vector<int32_t> tokenize(std::string_view text, bool special = false) const;
  std::string detokenize(std::span<const int32_t> tokens) const;
  bool is_end(int32_t token) const;

  const std::shared_ptr<const ModelImpl>& impl() const { return impl_; }

 private:
  explicit Model(std::shared_ptr<const ModelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const ModelImpl> impl_;
};

/// One sequence of tokens and its KV cache. Not thread-safe; forks of one session share an engine
/// and must be used from one thread at a time.
class Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Reads `tokens` at the next positions and remembers what policies `need` of them (needs_of()
  /// says it; repeat and lookahead passes are run by compress()). Throws Error(usage) for an empty
  /// prompt and Error(memory) where it does not fit the context; after an error or an interruption
  /// the session is as it was after the last complete ubatch.
  void prefill(std::span<const int32_t> tokens, const Needs& need = {.tail = 64},
               const Progress& progress = {});

  /// Chooses what stays with `policy` (a spec string, see `pith policies`) and frees the rest.
  /// A budget of the whole cache or more changes nothing. On error the cache is untouched. Throws
  /// Error(usage) where the policy scores by positions that prefill did not observe (decode and
  /// evaluate observe nothing), Error(budget) where the budget cannot be met.
  Receipt compress(std::string_view policy, std::string_view budget, const Progress& progress = {});

  /// Compresses to the smallest budget that does not move the predictions of the last 64 tokens
  /// read by more than `max_kl`, a mean KL against the full cache in nats: a copy that ends before
  /// them is compressed and reads them, teacher-forced, which is measured, not estimated. Budgets
  /// are shares of the cache from 2% to 90%, each at most 1.5 times the one before. They are
  /// bisected, so the one chosen is the smallest of them where the KL falls as the budget grows;
  /// what was tried is in the receipt's `max_kl`, and the KL of the one chosen is at most `max_kl`
  /// in any case. Where none will do the whole cache stays, and the receipt's notes say so. Takes
  /// up to 4 times scoring and the time of 64 tokens, once more the policy's passes, and memory for
  /// one more cache. Throws what compress() does, and Error(usage) for a bound that is not above 0,
  /// fewer than 128 tokens or a cache that was compressed before.
  Receipt compress_within(std::string_view policy, double max_kl, const Progress& progress = {});

  /// From now on compresses what follows as well: after every `every` tokens, the entries that came
  /// since this call and left the newest `window` compete, and `kept - every` a head stay on
  /// average, the window counted. So while tokens come one by one never more than `kept` are there
  /// beside what was there before, which stays whole. Called before anything was read, it bounds
  /// the whole cache: prefill then reads the prompt in blocks of `every` tokens, each of which sees
  /// itself and what stayed of those before it, so that a prompt may be larger than memory, and the
  /// sinks stay. With a counter for a pool, `kept` is shared out evenly among as many summaries as
  /// the session's context can ever need. Times add to those of the receipt. Throws Error(usage)
  /// for a policy that does not work in generation or for sizes that leave no room.
  void compress_generated(const GenerationOptions& options);

  /// Runs one token; logits [n_vocab] of what follows it, valid until the next call.
  std::span<const float> decode(int32_t token);

  /// Runs `tokens` and returns the logits after each of them [tokens.size(), n_vocab].
  std::vector<float> evaluate(std::span<const int32_t> tokens);

  /// An independent copy of the sequence; entries are copied, weights and engine shared.
  Session fork() const;

  /// Forgets positions >= `position`, which becomes the next position. Entries evicted before stay
  /// evicted.
  void trim(int32_t position);

  int32_t next_position() const;
  const Model& model() const;

  /// What the session has done so far (before compression: the full cache).
  Receipt receipt() const;

  SessionImpl& impl() { return *impl_; }

 private:
  explicit Session(std::unique_ptr<SessionImpl> impl);
  std::unique_ptr<SessionImpl> impl_;
};

/// Runs tokens[i] over sessions[i], forks of one another, in one pass; logits [sessions.size(),
/// n_vocab] of what follows each. What Session::decode() of each would do but for the order of
/// sums, in less time: the weights are read once for all, and so is the part of the cache that all
/// still have in common, a prompt compressed before it was forked say (on AttentionPath::ragged; on
/// the others the sessions take turns). The time counts for each of them. Throws Error(usage) for
/// sessions that are not forks of one another, a session twice, or another number of tokens, and
/// what decode() does; then no session has changed, unless compressing what was generated failed.
std::vector<float> decode_together(std::span<Session* const> sessions,
                                   std::span<const int32_t> tokens);

}  // namespace pith
