#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "build_info.hpp"
#include "commands.h"
#include "interrupt.h"
#include "options.h"
#include "pith/error.hpp"
#include "policy/text.h"

namespace {

using namespace pith::tools;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int report(std::string message, int code) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "pith: " << message << std::endl;
  return code;
}

/// A first word that is no command gets a hint; the parser would only ask for a subcommand.
void check_command_name(const CLI::App& tool, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with("-")) return;
  std::vector<std::string> names;
  for (const CLI::App* command : tool.get_subcommands({})) names.push_back(command->get_name());
  if (std::ranges::find(names, words[0]) != names.end()) return;
  throw pith::Error(pith::ErrorCode::usage, "no command " + pith::quote(words[0]) +
                                                "; did you mean " + pith::nearest(words[0], names) +
                                                "?");
}

void run_tool(CLI::App& tool, int argc, const char* const* argv) {
  const std::string command_line = shell_text(argc, argv);
  tool.require_subcommand(1);
  tool.set_version_flag("--version", "pith " PITH_VERSION " (" PITH_COMMIT ")");
  add_run(tool, command_line);
  add_compare(tool, command_line);
  add_correlate(tool, command_line);
  add_risk(tool, command_line);
  add_bench(tool, command_line);
  add_calibrate(tool);
  add_policies(tool);
  add_inspect(tool);
  std::vector<std::string> words = expand_short_names(argc, argv);
  check_command_name(tool, words);
  std::ranges::reverse(words);  // the parser takes its arguments from the back
  tool.parse(std::move(words));
  if (!std::cout.flush()) {
    throw pith::Error(pith::ErrorCode::io, "writing to standard output failed");
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Without it, ggml answers a failed internal check by starting a debugger.
  setenv("GGML_NO_BACKTRACE", "1", 0);
  catch_interrupts();
  CLI::App tool("Runs GGUF language models with a compressed KV cache.", "pith");
  try {
    run_tool(tool, argc, argv);
    return 0;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return tool.exit(e);  // help and version
    return report(std::string(e.what()) + "; see pith --help", kWrongUsage);
  } catch (const pith::Error& e) {
    return report(e.what(), e.code() == pith::ErrorCode::usage ? kWrongUsage : kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kFailed);
  } catch (const std::exception& e) {
    return report(e.what(), kFailed);
  }
}
