#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pith/pith.hpp"

namespace pith {

struct PeerOptions {
  int n_ctx = 2048;
  int n_ubatch = 512;
  int threads = 1;
  bool flash_attention = false;
  KvType kv_type = KvType::f16;
};

/// libllama on the same GGUF: the oracle of the tests and the alternative in benchmarks.
class LlamaPeer {
 public:
  /// Throws Error(bad_file) where libllama does not take the file, Error(memory) for its context.
  LlamaPeer(const std::string& gguf_path, const PeerOptions& options);
  ~LlamaPeer();
  LlamaPeer(const LlamaPeer&) = delete;
  LlamaPeer& operator=(const LlamaPeer&) = delete;

  /// Runs tokens after those before; with `all`, returns the logits after each of them
  /// [tokens.size(), n_vocab], else after the last one.
  std::vector<float> run(std::span<const int32_t> tokens, bool all);

  /// Forgets all tokens.
  void clear();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pith
