#include "model/gguf_check.h"

#include <ggml-cpp.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/ggml_log.h"
#include "support/expect_error.h"
#include "support/gguf_bytes.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

void refuse(GgufBytes& file, const std::string& part, ErrorCode code = ErrorCode::bad_file) {
  expect_error(code, part, [&] { check_gguf(file.span()); });
}

void refuse(GgufBytes&& file, const std::string& part, ErrorCode code = ErrorCode::bad_file) {
  refuse(file, part, code);
}

/// One F32 tensor "t" of 8 values behind one key.
GgufBytes valid(uint32_t version = 3) {
  GgufBytes file(version, 1, 1);
  file.key("a.number", GGUF_TYPE_UINT32).put(uint32_t{7});
  file.tensor("t", {8}, GGML_TYPE_F32, 0).data(32);
  return file;
}

TEST(CheckGguf, AcceptsVersionsTwoAndThree) {
  EXPECT_NO_THROW(check_gguf(valid(2).span()));
  EXPECT_NO_THROW(check_gguf(valid(3).span()));
}

TEST(CheckGguf, AcceptsEveryValueTypeAndArrays) {
  GgufBytes file(3, 0, GGUF_TYPE_COUNT + 1);
  const uint64_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  for (uint32_t type = 0; type < GGUF_TYPE_COUNT; ++type) {
    file.key("k" + std::to_string(type), type);
    if (type == GGUF_TYPE_STRING) file.text("word");
    if (type == GGUF_TYPE_ARRAY) file.put(uint32_t{GGUF_TYPE_UINT16}).put(uint64_t{3});
    file.string().append(type == GGUF_TYPE_ARRAY ? 6 : bytes[type], '\1');
  }
  file.key("words", GGUF_TYPE_ARRAY).put(uint32_t{GGUF_TYPE_STRING}).put(uint64_t{2});
  file.text("one").text("");
  EXPECT_NO_THROW(check_gguf(file.span()));
}

TEST(CheckGguf, EveryTruncationIsRefused) {
  const TinyModel tiny({.rope_freqs = true, .biases = true});
  const std::string whole = read_file(tiny.path());
  const auto bytes = std::as_bytes(std::span(whole));
  EXPECT_NO_THROW(check_gguf(bytes));
  const gguf_context_ptr header(gguf_init_from_buffer(whole.data(), whole.size(), {true, nullptr}));
  const size_t header_size = gguf_get_data_offset(header.get());
  ASSERT_GT(header_size, 1000U);
  for (size_t size = 0; size <= header_size; ++size) {
    EXPECT_THROW(check_gguf(bytes.first(size)), Error) << size;
  }
}

/// What passes is what ggml reads: no accepted corruption of a byte makes ggml refuse or abort.
TEST(CheckGguf, WhateverPassesGgmlReads) {
  silence_ggml();
  const TinyModel tiny({.n_layer = 1});
  std::string file = read_file(tiny.path());
  const gguf_context_ptr whole(gguf_init_from_buffer(file.data(), file.size(), {true, nullptr}));
  const size_t header_size = gguf_get_data_offset(whole.get());
  int passed = 0, refused = 0;
  for (size_t at = 0; at < header_size; ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      file[at] = char(file[at] ^ flip);
      try {
        check_gguf(std::as_bytes(std::span(file)));
        ++passed;
        const gguf_context_ptr read(
            gguf_init_from_buffer(file.data(), file.size(), {true, nullptr}));
        EXPECT_NE(read, nullptr) << "byte " << at;
      } catch (const Error&) {
        ++refused;
      }
      file[at] = char(file[at] ^ flip);
    }
  }
  EXPECT_GT(passed, 100);
  EXPECT_GT(refused, 100);
}

TEST(CheckGguf, MagicAndVersion) {
  expect_error(ErrorCode::bad_file, "not a GGUF file", [] { check_gguf({}); });
  auto file = valid();
  file.string()[0] = 'X';
  refuse(file, "not a GGUF file");
  refuse(valid(1), "version 1", ErrorCode::unsupported);
  refuse(valid(4), "version 4", ErrorCode::unsupported);
  refuse(valid(0x03000000), "version 50331648", ErrorCode::unsupported);  // big-endian
}

TEST(CheckGguf, HostileCounts) {
  refuse(GgufBytes(3, kHuge, 0), "tensors; at most");
  refuse(GgufBytes(3, 0, kHuge), "key-value pairs; at most");
  refuse(GgufBytes(3, 0, 60000), "file ends inside key");
  GgufBytes array(3, 0, 1);
  array.key("a", GGUF_TYPE_ARRAY).put(uint32_t{GGUF_TYPE_UINT8}).put(kHuge);
  refuse(array, "array elements; at most");
  GgufBytes strings(3, 0, 1);
  strings.key("a", GGUF_TYPE_ARRAY).put(uint32_t{GGUF_TYPE_STRING}).put(uint64_t{1 << 20});
  refuse(strings, "file ends inside string value");
  GgufBytes numbers(3, 0, 1);
  numbers.key("a", GGUF_TYPE_ARRAY).put(uint32_t{GGUF_TYPE_FLOAT64}).put(uint64_t{1 << 20});
  refuse(numbers, "file ends inside the value of key a");
}

TEST(CheckGguf, HostileStringsAndTypes) {
  GgufBytes key(3, 0, 1);
  key.put(kHuge);
  refuse(key, "key of 18446744073709551615 bytes is too long");
  GgufBytes value(3, 0, 1);
  value.key("a", GGUF_TYPE_STRING).put(uint64_t{1000});
  refuse(value, "string value of 1000 bytes is too long");
  refuse(GgufBytes(3, 0, 1).key("", GGUF_TYPE_BOOL), "empty key");
  refuse(GgufBytes(3, 0, 1).key(std::string_view("a\0b", 3), GGUF_TYPE_BOOL), "not printable");
  refuse(GgufBytes(3, 0, 1).key("a", 13), "value type 13 of key a is not known");
  refuse(GgufBytes(3, 0, 1).key("a", GGUF_TYPE_ARRAY).put(uint32_t{9}).put(uint64_t{1}),
         "value type 9 of key a is not known");
  GgufBytes twice(3, 0, 2);
  twice.key("a", GGUF_TYPE_BOOL).put('\1').key("a", GGUF_TYPE_BOOL).put('\1');
  refuse(twice, "key a occurs twice");
}

TEST(CheckGguf, HostileTensors) {
  const auto tensor = [](std::string_view name, std::initializer_list<uint64_t> shape,
                         uint32_t type, uint64_t offset = 0) {
    GgufBytes file(3, 1, 0);
    file.tensor(name, shape, type, offset).data(4096);
    return file;
  };
  refuse(tensor(std::string(64, 'n'), {8}, GGML_TYPE_F32), "tensor name of 64 bytes is too long");
  refuse(tensor("t", {}, GGML_TYPE_F32), "has 0 dimensions");
  refuse(tensor("t", {1, 1, 1, 1, 1}, GGML_TYPE_F32), "has 5 dimensions");
  refuse(tensor("t", {8, 0}, GGML_TYPE_F32), "zero or overflow");
  refuse(tensor("t", {kHuge}, GGML_TYPE_F32), "zero or overflow");
  refuse(tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, GGML_TYPE_F32), "zero or overflow");
  refuse(tensor("t", {uint64_t{1} << 62}, GGML_TYPE_F32), "larger than the file");
  refuse(tensor("t", {2048}, GGML_TYPE_F32), "larger than the file");
  refuse(tensor("t", {33}, GGML_TYPE_Q4_0), "not whole blocks of q4_0");
  refuse(tensor("t", {8}, 4), "type 4 of tensor t", ErrorCode::unsupported);  // removed from ggml
  refuse(tensor("t", {8}, 0xFFFFFFFF), "is not known", ErrorCode::unsupported);
  refuse(tensor("t", {8}, GGML_TYPE_F32, 32), "at offset 32 of the data, expected 0");
}

TEST(CheckGguf, TensorsThatOverlapRepeatOrLieOutside) {
  const auto pair = [](const char* second, uint64_t offset, size_t bytes) {
    GgufBytes file(3, 2, 0);
    file.tensor("t", {9}, GGML_TYPE_F32, 0).tensor(second, {8}, GGML_TYPE_F32, offset).data(bytes);
    return file;
  };
  EXPECT_NO_THROW(check_gguf(pair("u", 64, 96).span()));
  refuse(pair("t", 64, 96), "tensor t occurs twice");
  refuse(pair("u", 32, 96), "expected 64");
  refuse(pair("u", 64, 95), "shorter than its tensors");
}

TEST(CheckGguf, Alignment) {
  const auto aligned = [](uint32_t alignment) {
    GgufBytes file(3, 1, 1);
    file.key("general.alignment", GGUF_TYPE_UINT32).put(alignment);
    file.tensor("t", {8}, GGML_TYPE_F32, 0).data(32, alignment > 0 ? alignment : 1);
    return file;
  };
  EXPECT_NO_THROW(check_gguf(aligned(8).span()));
  EXPECT_NO_THROW(check_gguf(aligned(4096).span()));
  for (const uint32_t bad : {0U, 1U, 24U}) refuse(aligned(bad), "is not a power of two");
  GgufBytes huge(3, 0, 1);
  huge.key("general.alignment", GGUF_TYPE_UINT32).put(uint32_t{1} << 31);
  refuse(huge, "is not a power of two");
  GgufBytes typed(3, 0, 1);
  typed.key("general.alignment", GGUF_TYPE_UINT64).put(uint64_t{32});
  refuse(typed, "not a 32-bit unsigned number");
}

}  // namespace
}  // namespace pith::test
