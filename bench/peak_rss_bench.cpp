// Peak resident memory of reading a prompt, pith beside libllama with the same context and an F16
// cache. Each runs in a process of its own, made before anything is loaded. First checks that both
// predict alike.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "eval/llama_peer.h"
#include "pith/pith.hpp"
#include "support/logits.h"
#include "support/packaged_model.h"

namespace {

using namespace pith;

constexpr int kThreads = 2, kContext = 8192;

struct Measured {
  std::vector<float> logits;  ///< after the last token
  double peak_mib = 0;
};

/// Runs `work`, which returns logits, in a child process.
Measured in_child(size_t n_vocab, const std::function<std::vector<float>()>& work) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    const auto logits = work();
    FILE* out = fdopen(pipe_ends[1], "wb");
    const bool written = std::fwrite(logits.data(), sizeof(float), n_vocab, out) == n_vocab;
    std::_Exit(written && std::fflush(out) == 0 ? 0 : 1);
  }
  close(pipe_ends[1]);
  Measured result{.logits = std::vector<float>(n_vocab)};
  FILE* in = fdopen(pipe_ends[0], "rb");
  const size_t read = std::fread(result.logits.data(), sizeof(float), n_vocab, in);
  std::fclose(in);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (status != 0 || read != n_vocab) std::exit(1);
  result.peak_mib = double(usage.ru_maxrss) / 1024;
  return result;
}

std::vector<int32_t> prompt(size_t n) {
  auto tokens = Model::load(test::packaged_model()).tokenize(test::long_text());
  tokens.resize(n);
  return tokens;
}

std::vector<float> pith_logits(size_t n) {
  const auto tokens = prompt(n);
  Session session(Model::load(test::packaged_model()), {.threads = kThreads, .n_ctx = kContext});
  session.prefill(std::span(tokens).first(n - 1));
  const auto logits = session.decode(tokens.back());
  return {logits.begin(), logits.end()};
}

std::vector<float> llama_logits(size_t n, bool flash_attention) {
  const auto tokens = prompt(n);
  LlamaPeer llama(test::packaged_model(),
                  {.n_ctx = kContext, .threads = kThreads, .flash_attention = flash_attention});
  return llama.run(tokens, false);
}

/// Whether both predict alike: within what another order of sums does to 4-bit weights.
bool measure(size_t n, size_t n_vocab) {
  const Measured pith = in_child(n_vocab, [&] { return pith_logits(n); });
  std::printf("%5zu tokens: pith %.0f MiB", n, pith.peak_mib);
  for (const bool flash : {false, true}) {
    const Measured llama = in_child(n_vocab, [&] { return llama_logits(n, flash); });
    if (test::mean_kl(pith.logits, llama.logits, n_vocab) > 0.05) return false;
    std::printf(", libllama%s %.0f MiB (pith / it %.2f)", flash ? " with flash attention" : "",
                llama.peak_mib, pith.peak_mib / llama.peak_mib);
  }
  std::printf("\n");
  std::fflush(stdout);
  return true;
}

}  // namespace

int main() {
  constexpr size_t kVocab = 49152;
  for (const size_t n : {2048U, 4096U, 7600U}) {
    if (!measure(n, kVocab)) {
      std::printf("predictions differ\n");
      return 1;
    }
  }
}
