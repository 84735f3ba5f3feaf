#include "infer/model_source.h"

#include "adapters/peft_folder.h"
#include "base/error.h"
#include "formats/weights_folder.h"
#include "models/all.h"
#include "prepare/setup.h"
#include "weights/adapter_weights.h"
#include "weights/weights.h"

namespace plimsoll {

ModelSource find_model(const std::string& weights, const std::string& adapter) {
  if (weights.empty() && adapter.empty()) {
    throw config_error("E-USAGE", "--weights", "no weights are given", "a folder of weights, or of an adapter",
                       {"--weights FOLDER", "--adapter FOLDER"});
  }
  ModelSource source;
  std::filesystem::path with = adapter.empty() ? std::filesystem::path() : weights_folder(adapter);
  source.folder = weights.empty() ? std::filesystem::path() : weights_folder(weights);
  if (with.empty() && is_adapter_folder(source.folder)) std::swap(with, source.folder);
  if (!with.empty()) {
    const PeftAdapter peft = read_peft_folder(with);
    source.adapter = peft.settings;
    if (source.folder.empty()) source.folder = base_of(peft);
  }
  source.model = read_model(source.folder);
  check_weights(build_evaluation_graph(source.model, 1, 1, 1).model.graph, source.model, source.folder);
  if (source.adapter.active()) {
    const InferenceGraph graph = build_evaluation_graph(source.model, 1, 1, 1, source.adapter);
    check_adapter(graph.model.graph, source.model, source.adapter, source.folder);
  }
  return source;
}

}  // namespace plimsoll
