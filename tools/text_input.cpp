#include "text_input.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "model/utf8.h"
#include "pith/error.hpp"

namespace pith::tools {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;

std::string read_all(std::istream& in, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof buffer), in.gcount() > 0) {
    text.append(buffer, size_t(in.gcount()));
    if (text.size() > kMaxBytes) {
      throw Error(ErrorCode::bad_file, name + ": longer than 256 MiB of text");
    }
  }
  if (in.bad()) throw Error(ErrorCode::io, name + ": reading failed: " + std::strerror(errno));
  if (const auto at = find_invalid_utf8(text)) {
    throw Error(ErrorCode::bad_file, name + ": not UTF-8 at byte " + std::to_string(*at));
  }
  if (text.empty()) throw Error(ErrorCode::bad_file, name + ": empty, there is nothing to read");
  return text;
}

}  // namespace

std::string read_text(const std::string& path) {
  if (path == "-") return read_all(std::cin, "standard input");
  if (std::filesystem::is_directory(path)) {
    throw Error(ErrorCode::io, path + ": a folder, not a text file");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorCode::io, path + ": cannot be read: " + std::strerror(errno));
  return read_all(in, path);
}

}  // namespace pith::tools
