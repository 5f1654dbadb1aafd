// What a bounded cache costs over a long stream: windows of a text are read token by token in a
// cache that keeps `kLive` entries a head whatever was read, and each prediction of the last 1,000
// tokens is compared with that of the whole cache. An argument is a file to read in place of the
// long text.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "eval/metrics.h"
#include "pith/pith.hpp"
#include "support/packaged_model.h"

namespace {

using namespace pith;

constexpr int kThreads = 2, kWindows = 4, kLead = 512, kScored = 1000, kLive = 256, kEvery = 64;

struct Case {
  const char* policy;
  Pool pool = Pool::rolling;
};
constexpr Case kCases[] = {{"streaming"},   {"snapkv"},
                           {"tova"},        {"sensitivity+smooth(kernel=5)"},
                           {"pith-stream"}, {"pith-stream", Pool::counter}};

using Tokens = std::span<const int32_t>;

std::vector<Tokens> windows_of(Tokens text) {
  const size_t size = kLead + kScored, apart = (text.size() - size) / (kWindows - 1);
  std::vector<Tokens> out;
  out.reserve(kWindows);
  for (size_t w = 0; w < kWindows; ++w) out.push_back(text.subspan(w * apart, size));
  return out;
}

struct Run {
  std::vector<double> kl;  ///< of each scored token, nats
  double most_live = 0;    ///< entries a layer and KV head, on average
  double most_bytes = 0;   ///< of the cache, log-weights counted
};

/// The whole cache's logits after each scored token [kScored, n_vocab].
std::vector<float> predictions(const Model& model, Tokens window) {
  Session whole(model, {.threads = kThreads, .n_ctx = int(window.size())});
  whole.prefill(window.first(kLead));
  return whole.evaluate(window.subspan(kLead));
}

/// Reads a window in a bounded cache. `full` are its predictions with the whole one.
Run read(const Model& model, Tokens window, std::span<const float> full, const Case& c) {
  const auto n_vocab = size_t(model.shape().n_vocab);
  Session session(model, {.threads = kThreads, .n_ctx = int(window.size())});
  session.compress_generated(
      {.policy = c.policy, .kept = kLive, .every = kEvery, .window = kEvery, .pool = c.pool});
  Run run;
  for (size_t t = 0; t < window.size(); ++t) {
    const auto logits = session.decode(window[t]);
    const Receipt receipt = session.receipt();
    run.most_live = std::max(run.most_live, double(receipt.entries_kept) / model.shape().n_rows());
    run.most_bytes = std::max(run.most_bytes, double(receipt.bytes_kept));
    if (t < kLead) continue;
    const auto whole = full.subspan((t - kLead) * n_vocab, n_vocab);
    run.kl.push_back(compare_logits(whole, logits, std::nullopt).kl);
  }
  return run;
}

std::string text_of(int argc, char** argv) {
  if (argc < 2) return test::long_text();
  std::ifstream in(argv[1], std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const Model model = Model::load(test::packaged_model());
  const auto text = model.tokenize(text_of(argc, argv));
  if (text.size() < kLead + kScored) {
    std::printf("the text needs %d tokens, it has %zu\n", kLead + kScored, text.size());
    return 1;
  }
  std::printf("%d windows, %d tokens scored after %d; at most %d entries a head\n", kWindows,
              kScored, kLead, kLive);
  const auto windows = windows_of(text);
  std::vector<std::vector<double>> kl(std::size(kCases));  // mean of each window
  std::vector<Run> most(std::size(kCases));
  for (const Tokens window : windows) {
    const auto full = predictions(model, window);
    for (size_t p = 0; p < kl.size(); ++p) {
      const Run run = read(model, window, full, kCases[p]);
      kl[p].push_back(mean(run.kl));
      most[p].most_live = std::max(most[p].most_live, run.most_live);
      most[p].most_bytes = std::max(most[p].most_bytes, run.most_bytes);
    }
  }
  for (size_t p = 0; p < kl.size(); ++p) {
    const Ratio ratio = paired_ratio(kl[p], kl[0]);
    const std::string_view pool = kPoolNames[size_t(kCases[p].pool)];
    std::printf(
        "  %-30s %-8.*s KL %.4f +- %.4f, %.2f [%.2f, %.2f] of streaming's; most live %.1f, %.2f "
        "MiB\n",
        kCases[p].policy, int(pool.size()), pool.data(), mean(kl[p]), standard_error(kl[p]),
        ratio.value, ratio.lo, ratio.hi, most[p].most_live, most[p].most_bytes / (1 << 20));
  }
}
