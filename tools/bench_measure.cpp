#include "bench_measure.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>

#include "bandwidth.h"
#include "base/system.h"
#include "base/timer.h"
#include "engine/profile.h"
#include "eval/llama_peer.h"
#include "eval/metrics.h"
#include "policy/policy.h"
#include "session/session.h"

namespace pith::tools {
namespace {

/// Makes the peak resident size count from now on, where the system allows it.
void reset_peak_rss() { std::ofstream("/proc/self/clear_refs") << "5"; }

PhaseSamples& phase_of(BenchResult& result, const std::string& name, int tokens) {
  const auto at = std::ranges::find(result.phases, name, &PhaseSamples::phase);
  if (at != result.phases.end()) return *at;
  result.phases.push_back({name, tokens, {}, {}, 0});
  return result.phases.back();
}

void add_sample(BenchResult& result, const std::string& name, int tokens, double wall, double cpu) {
  PhaseSamples& phase = phase_of(result, name, tokens);
  phase.wall_s.push_back(wall);
  phase.cpu_s.push_back(cpu);
  phase.peak_rss = std::max(phase.peak_rss, peak_rss_bytes());
}

/// Any tokens do: the time does not depend on what they say.
std::vector<int32_t> arbitrary_tokens(int count, int n_vocab) {
  std::mt19937 random(1);
  std::vector<int32_t> tokens(size_t(count), 0);
  for (int32_t& token : tokens) token = int32_t(random() % unsigned(n_vocab));
  return tokens;
}

/// Bytes of the matrices that a decoded token multiplies with.
double weight_bytes(const ModelWeights& weights) {
  size_t bytes = ggml_nbytes(weights.output());
  for (int il = 0; il < weights.config().shape.n_layer; ++il) {
    const LayerWeights& w = weights.layer(il);
    for (const ggml_tensor* t : {w.wq, w.wk, w.wv, w.wo, w.gate, w.up, w.down}) {
      bytes += ggml_nbytes(t);
    }
  }
  return double(bytes);
}

/// One context length and number of threads: its runners and their results.
class ContextBench {
 public:
  ContextBench(const Model& model, const BenchPlan& plan, int ctx, int threads)
      : model_(model),
        plan_(plan),
        options_(plan.session),
        ctx_(ctx),
        prompt_(arbitrary_tokens(ctx, model.shape().n_vocab)),
        next_(arbitrary_tokens(plan.decode, model.shape().n_vocab)) {
    options_.threads = threads;
    for (const FidelityCase& cell : plan.cases) add_result(cell.policy).budget = cell.budget;
    if (plan.peers) {
      add_peer("llama, flash attention", true);
      // libllama reads values in blocks by flash attention only.
      if (options_.k_type != KvType::q8_0) add_peer("llama", false);
    }
  }

  void repeat(const Progress& progress) {
    reset_peak_rss();
    Session session(model_, options_);
    session.prefill(prompt_, observed(), progress);
    for (size_t c = 0; c < plan_.cases.size(); ++c) {
      const PhaseTimes wall = session.receipt().time_s, cpu = session.receipt().cpu_s;
      add_sample(results[c], "prefill", ctx_, wall.prefill, cpu.prefill);
      if (wall.observe > 0) add_sample(results[c], "observe", ctx_, wall.observe, cpu.observe);
      run_case(session.fork(), results[c]);
      if (!progress(1)) throw Error(ErrorCode::interrupted, "interrupted");
    }
    for (size_t p = 0; p < peers_.size(); ++p) {
      run_peer(*peers_[p], results[plan_.cases.size() + p]);
      if (!progress(1)) throw Error(ErrorCode::interrupted, "interrupted");
    }
  }

  /// Splits a decoded token's time, after the repeats.
  void split_decode() {
    const double weights_s =
        products_seconds(*model_.impl()->weights, 1, options_.threads, plan_.repeat + 1);
    for (BenchResult& result : results) {
      if (result.peer || result.attention_s == 0) continue;
      result.weights_s = weights_s;
      result.attention_s /= double(plan_.repeat) * double(plan_.decode);
    }
  }

  std::vector<BenchResult> results;

 private:
  void add_peer(const std::string& name, bool flash_attention) {
    PeerOptions options;
    options.n_ctx = ctx_ + plan_.decode;
    options.n_ubatch = options_.n_ubatch;
    options.threads = options_.threads;
    options.flash_attention = flash_attention;
    options.kv_type = options_.k_type;
    peers_.push_back(std::make_unique<LlamaPeer>(model_.impl()->weights->path(), options));
    add_result(name).peer = true;
  }

  BenchResult& add_result(const std::string& policy) {
    BenchResult result;
    result.ctx = ctx_;
    result.threads = options_.threads;
    result.policy = policy;
    results.push_back(result);
    return results.back();
  }

  Needs observed() const {
    Needs needs;
    for (const FidelityCase& cell : plan_.cases) needs = needs | needs_of(cell.policy);
    return needs;
  }

  void run_case(Session session, BenchResult& result) const {
    reset_peak_rss();
    const Receipt before = session.receipt();
    const Receipt receipt = session.compress(result.policy, result.budget);
    const PhaseTimes &wall = receipt.time_s, &cpu = receipt.cpu_s;
    if (wall.observe > before.time_s.observe) {
      add_sample(result, "passes", ctx_, wall.observe - before.time_s.observe,
                 cpu.observe - before.cpu_s.observe);
    }
    if (receipt.entries_kept < receipt.entries_full) {
      add_sample(result, "score", ctx_, wall.score, cpu.score);
      add_sample(result, "select", ctx_, wall.select, cpu.select);
      add_sample(result, "apply", ctx_, wall.apply, cpu.apply);
    }
    reset_peak_rss();
    const double attention_before = session.impl().engine->attention_seconds();
    const PhaseTimer timer;
    for (const int32_t token : next_) session.decode(token);
    add_sample(result, "decode", plan_.decode, timer.seconds(), timer.cpu_seconds());
    result.attention_s += session.impl().engine->attention_seconds() - attention_before;
    const double entries = double(receipt.entries_kept);
    const size_t entry = session.impl().cache.geometry().entry_bytes();
    result.decode_bytes = weight_bytes(*model_.impl()->weights) + entries * double(entry);
  }

  void run_peer(LlamaPeer& peer, BenchResult& result) const {
    peer.clear();
    reset_peak_rss();
    const PhaseTimer prefill;
    peer.run(prompt_, false);
    add_sample(result, "prefill", ctx_, prefill.seconds(), prefill.cpu_seconds());
    const PhaseTimer decode;
    for (const int32_t& token : next_) peer.run({&token, 1}, false);
    add_sample(result, "decode", plan_.decode, decode.seconds(), decode.cpu_seconds());
  }

  const Model& model_;
  const BenchPlan& plan_;
  SessionOptions options_;
  int ctx_;
  std::vector<int32_t> prompt_, next_;
  std::vector<std::unique_ptr<LlamaPeer>> peers_;
};

}  // namespace

const PhaseSamples* BenchResult::find(const std::string& phase) const {
  const auto at = std::ranges::find(phases, phase, &PhaseSamples::phase);
  return at == phases.end() ? nullptr : &*at;
}

double BenchResult::seconds(const std::string& phase) const {
  const PhaseSamples* found = find(phase);
  return found == nullptr ? 0 : quantile(found->wall_s, 0.5);
}

double BenchResult::token_seconds() const { return seconds("decode") / find("decode")->tokens; }

void run_bench(const Model& model, const BenchPlan& plan, std::vector<BenchResult>& results,
               const Progress& progress) {
  const double total = double(plan.threads.size() * plan.contexts.size()) * plan.repeat;
  double done = 0;
  for (const int threads : plan.threads) {
    const double bandwidth = memory_bandwidth(threads);
    for (const int ctx : plan.contexts) {
      ContextBench bench(model, plan, ctx, threads);
      for (int r = 0; r < plan.repeat; ++r, ++done) {
        bench.repeat([&](double share) { return progress((done + share / 2) / total); });
      }
      bench.split_decode();
      for (BenchResult& result : bench.results) {
        result.bandwidth = bandwidth;
        results.push_back(std::move(result));
      }
    }
  }
}

}  // namespace pith::tools
