// A long generation whose own entries are compressed as it goes on: resident memory and speed by
// stretches of 500 tokens. Beside it, the same with the whole cache. First checks that the bound on
// entries holds after every token. An argument is the policy in place of the default.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>

#include "base/argmax.h"
#include "pith/pith.hpp"
#include "support/packaged_model.h"

namespace {

using namespace pith;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 2, kPrompt = 1000, kTokens = 4000, kStretch = 500;

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Most entries of what was generated, summed over layers and KV heads.
int64_t bound(const Model& model, const GenerationOptions& options) {
  return int64_t(model.shape().n_rows()) * options.kept;
}

struct Stretch {
  double ms_per_token = 0;
  double resident_mib = 0;  ///< at its end
};

/// Generates greedily, without an end, after the first tokens of the long text.
std::vector<Stretch> generate(const Model& model, std::optional<GenerationOptions> options) {
  Session session(model, {.threads = kThreads, .n_ctx = kPrompt + kTokens});
  auto prompt = model.tokenize(test::long_text());
  prompt.resize(kPrompt);
  session.prefill(std::span(prompt).first(kPrompt - 1));
  if (options) session.compress_generated(*options);
  const int64_t before = session.receipt().entries_kept;
  int32_t token = prompt.back();
  std::vector<Stretch> stretches;
  for (int done = 0; done < kTokens; done += kStretch) {
    const auto start = Clock::now();
    for (int i = 0; i < kStretch; ++i) {
      token = int32_t(argmax(session.decode(token)));
      if (options && session.receipt().entries_kept - before > bound(model, *options)) return {};
    }
    const std::chrono::duration<double, std::milli> spent = Clock::now() - start;
    stretches.push_back({spent.count() / kStretch, double(resident_bytes()) / (1 << 20)});
  }
  return stretches;
}

void print(const char* name, const std::vector<Stretch>& stretches) {
  std::printf("%s\n", name);
  for (size_t s = 0; s < stretches.size(); ++s) {
    std::printf("  to token %5zu: %6.2f ms a token, %7.1f MiB resident\n", (s + 1) * kStretch,
                stretches[s].ms_per_token, stretches[s].resident_mib);
  }
  const double speed = stretches.front().ms_per_token / stretches.back().ms_per_token;
  const size_t after = 1000 / kStretch - 1;
  double most = 0;
  for (size_t s = after; s < stretches.size(); ++s)
    most = std::max(most, stretches[s].resident_mib);
  std::printf("  speed of the last stretch / first: %.2f; most memory after 1000 / at 1000: %.3f\n",
              speed, most / stretches[after].resident_mib);
}

}  // namespace

int main(int argc, char** argv) {
  const Model model = Model::load(test::packaged_model());
  GenerationOptions options;
  if (argc > 1) options.policy = argv[1];
  const auto compressed = generate(model, options);
  if (compressed.empty()) {
    std::printf("more entries than the bound allows\n");
    return 1;
  }
  print((options.policy + " every 128 tokens, 512 kept").c_str(), compressed);
  print("whole cache", generate(model, std::nullopt));
}
