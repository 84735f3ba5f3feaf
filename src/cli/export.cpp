#include "weights/export_gguf.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "adapters/peft_folder.h"
#include "base/error.h"
#include "base/shell.h"
#include "cli/commands.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "formats/atomic_file.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

const GgufStorage* type_named(const std::string& name) {
  const GgufStorage* type = gguf_storage(name);
  if (type != nullptr && type->file_type) return type;
  throw config_error("E-USAGE", "--type", fmt::format("it is '{}'", name), "one of " + written_gguf_formats());
}

}  // namespace

int run_export(const ExportArguments& arguments) {
  if (!arguments.run.empty()) return export_records(arguments);
  GgufExport request;
  request.type = type_named(arguments.type);
  request.out = output_file(arguments.gguf);
  if (!arguments.weights.empty()) request.base = weights_folder(arguments.weights);
  if (!arguments.adapter.empty()) request.adapter = weights_folder(arguments.adapter);
  say_best(arguments.weights);
  say_best(arguments.adapter);
  // The weights of an adapter's run are an adapter.
  const bool found = request.adapter.empty() && is_adapter_folder(request.base);
  if (found) std::swap(request.adapter, request.base);
  if (request.base.empty()) request.base = base_of(read_peft_folder(request.adapter));
  const GgufExported result = export_gguf(request);
  const bool adapter = !request.adapter.empty();
  if (!adapter && !result.tokenizer)
    say_line("note: the folder has no tokenizer, so the file has none; llama.cpp reads no text with it");
  if (!result.spaces.empty()) {
    say_line(
        fmt::format("note: llama.cpp puts a space before a text that begins with one, too{}; this tokenizer does not, so "
                    "such a text has other tokens there",
                    result.spaces == "first" ? ", and before text after a special token" : ""));
  }
  if (found) {
    say_line(
        fmt::format("note: {} holds an adapter, so the file is an adapter and also needs its base; for one file with both: "
                    "plimsoll merge --adapter {} --out NEW, then plimsoll export --weights NEW --gguf {} --type {}",
                    arguments.weights, shell_quoted(arguments.weights), shell_quoted(arguments.gguf), request.type->name));
  }
  if (result.other_template) {
    say_line(
        "note: the adapter was trained with a chat template of its own, and the GGUF file of an adapter has none: whoever runs "
        "it takes that of the base; plimsoll merge keeps the template");
  }
  if (result.in_f16 > 0) {
    say_line(
        fmt::format("note: {} matrices are F16: their rows are no multiple of the 32 numbers of a block of Q8_0", result.in_f16));
  }
  const std::string from = (adapter ? request.adapter : request.base).string();
  if (arguments.json) {
    const nlohmann::json object = {{"schema", "plimsoll.export/1"},
                                   {"kind", adapter ? "adapter" : "model"},
                                   {"base", request.base.string()},
                                   {"adapter", adapter ? nlohmann::json(request.adapter.string()) : nlohmann::json()},
                                   {"gguf", arguments.gguf},
                                   {"architecture", result.architecture},
                                   {"type", request.type->name},
                                   {"tensors", result.tensors},
                                   {"bytes", result.bytes},
                                   {"tokenizer", result.tokenizer},
                                   {"chat_template", result.chat_template},
                                   {"other_template", result.other_template}};
    print_json(object);
  } else {
    print_text(fmt::format("wrote {}: {}{} tensors of {}, {} bytes\n", arguments.gguf, adapter ? "an adapter, " : "",
                           result.tensors, from, result.bytes));
  }
  return 0;
}

}  // namespace plimsoll
