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
constexpr const char* kPolicies[] = {"streaming", "snapkv", "tova", "sensitivity+smooth(kernel=5)",
                                     "pith-stream"};

using Tokens = std::span<const int32_t>;

std::vector<Tokens> windows_of(Tokens text) {
  const size_t size = kLead + kScored, apart = (text.size() - size) / (kWindows - 1);
  std::vector<Tokens> out;
  for (size_t w = 0; w < kWindows; ++w) out.push_back(text.subspan(w * apart, size));
  return out;
}

struct Run {
  std::vector<double> kl;  ///< of each scored token, nats
  double most_live = 0;    ///< entries a layer and KV head, on average
  double most_bytes = 0;   ///< of the cache, log-weights counted
};

/// Reads a window beside the whole cache.
Run read(const Model& model, Tokens window, const std::string& policy) {
  const SessionOptions options{.threads = kThreads, .n_ctx = int(window.size())};
  Session whole(model, options), bounded(model, options);
  bounded.compress_generated({.policy = policy, .kept = kLive, .every = kEvery, .window = kEvery});
  Run run;
  for (size_t t = 0; t < window.size(); ++t) {
    const auto full = whole.decode(window[t]);
    const auto some = bounded.decode(window[t]);
    const Receipt receipt = bounded.receipt();
    run.most_live = std::max(run.most_live, double(receipt.entries_kept) / model.shape().n_rows());
    run.most_bytes = std::max(run.most_bytes, double(receipt.bytes_kept));
    if (t >= kLead) run.kl.push_back(compare_logits(full, some, std::nullopt).kl);
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
  std::vector<double> streaming;
  for (const char* policy : kPolicies) {
    std::vector<double> kl;
    Run most;
    for (const Tokens window : windows_of(text)) {
      const Run run = read(model, window, policy);
      kl.push_back(mean(run.kl));
      most.most_live = std::max(most.most_live, run.most_live);
      most.most_bytes = std::max(most.most_bytes, run.most_bytes);
    }
    if (streaming.empty()) streaming = kl;
    const Ratio ratio = paired_ratio(kl, streaming);
    std::printf(
        "  %-30s KL %.4f +- %.4f, %.2f [%.2f, %.2f] of streaming's; most live %.1f, %.2f MiB\n",
        policy, mean(kl), standard_error(kl), ratio.value, ratio.lo, ratio.hi, most.most_live,
        most.most_bytes / (1 << 20));
    std::fflush(stdout);
  }
}
