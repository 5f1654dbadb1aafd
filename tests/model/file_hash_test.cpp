#include "model/file_hash.h"

#include <gtest/gtest.h>

#include "support/temp_file.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

std::string hash_of(const std::string& path) { return file_hash(GgufFile(path)); }

TEST(FileHash, IsTheSameForACopyAndOthersForAnotherModel) {
  const TinyModel model({.seed = 1});
  const TempFile copy(read_file(model.path()));
  EXPECT_EQ(hash_of(copy.path()), hash_of(model.path()));
  EXPECT_NE(hash_of(TinyModel({.seed = 2}).path()), hash_of(model.path()));
  EXPECT_NE(hash_of(TinyModel({.rope_freq_base = 500, .seed = 1}).path()), hash_of(model.path()));
}

TEST(FileHash, SeesTheFirstAndTheLastOfASmallFile) {
  const TinyModel model;
  std::string bytes = read_file(model.path());
  bytes.back() = char(bytes.back() ^ 1);
  const TempFile changed(bytes);
  EXPECT_NE(hash_of(changed.path()), hash_of(model.path()));
  EXPECT_EQ(hash_of(model.path()).size(), 16U);
}

}  // namespace
}  // namespace pith::test
