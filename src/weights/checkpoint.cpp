#include "weights/checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/shell.h"
#include "base/text.h"
#include "collective/broadcast.h"
#include "collective/together.h"
#include "formats/atomic_folder.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/finite.h"
#include "formats/gguf/gguf_file.h"
#include "formats/new_folder.h"
#include "formats/past_cache.h"
#include "formats/safetensors.h"
#include "plan/machine.h"
#include "weights/manifest.h"
#include "weights/state_conversion.h"

namespace plimsoll {
namespace {

constexpr const char* kCounters = "plimsoll.progress";  // of format 1
constexpr const char* kFrozen = "plimsoll.frozen";
constexpr const char* kChecksums = "checksums";  // the counter that marks a file of format 1 with checksums

// The folder of the run for a file of a checkpoint.
std::filesystem::path run_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  if (folder.filename() == "diverged") return folder.parent_path();
  return folder.parent_path().filename() == "checkpoints" ? folder.parent_path().parent_path() : folder;
}

Remedy begin_anew(const std::filesystem::path& file, Changes changes = {}) {
  const std::filesystem::path run = run_of(file);
  changes.emplace(changes.begin(), "command.run", new_folder_beside(run).string());
  return Remedy::of_command("train " + shell_quoted((run / "config.resolved.toml").string()), std::move(changes));
}

Remedy resume(const std::filesystem::path& file, std::string init, std::string note = {}) {
  return Remedy::of_command(
      "train", {{"command.run", run_of(file).string()}, {"command.resume"}, {"model.init", std::move(init)}}, std::move(note));
}

Error corrupt(const std::filesystem::path& file, std::string what) {
  return data_error("E-CKPT-CORRUPT", file.string(), std::move(what), "the bytes that were saved", {begin_anew(file)});
}

void compare(const SafetensorsFile& file, const StoredTensor& tensor, const Hasher& read) {
  if (!file.has_checksums() || file.checksum(tensor) == read.hex()) return;
  throw corrupt(file.path(), fmt::format("the bytes of {} have the checksum {} and were saved with {}", tensor.name, read.hex(),
                                         file.checksum(tensor)));
}

Hasher hash_of(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::vector<std::byte> part(std::size_t{1} << 16);
  Hasher hasher;
  for (std::int64_t done = 0; done < tensor.bytes; done += std::ssize(part)) {
    part.resize(static_cast<std::size_t>(std::min(std::ssize(part), tensor.bytes - done)));
    file.read_part(tensor, done, part);
    hasher.add(part);
  }
  return hasher;
}

std::vector<ValueId> saved_values(const Graph& graph) {
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    const bool kept = value.parameter ? !is_frozen(value) : value.role == Role::optimizer_state;
    if (kept && value.persistent()) values.push_back(ValueId{i});
  }
  return values;
}

std::vector<ValueId> frozen_values(const Graph& graph) {
  std::vector<ValueId> values;
  for (const ValueId id : graph.parameters()) {
    if (is_frozen(graph.values[id])) values.push_back(id);
  }
  return values;
}

// Empty if nothing is frozen.
std::string frozen_text(const Graph& graph, const FrozenWeights& frozen) {
  const std::vector<ValueId> values = frozen_values(graph);
  ensure(frozen.hashes.size() == values.size(), "checkpoint", "not every frozen parameter has a hash");
  if (values.empty()) return {};
  nlohmann::json object = {{"seed", frozen.source.seed}, {"hashes", nlohmann::json::object()}};
  if (!frozen.source.folder.empty()) object["folder"] = std::filesystem::absolute(frozen.source.folder).string();
  for (std::size_t i = 0; i < values.size(); ++i) object["hashes"][graph.values[values[i]].name.text()] = frozen.hashes[i];
  return object.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

// An upper bound of the text's bytes: a path, and name and hash of each parameter.
Bytes frozen_bytes(const Graph& graph) {
  constexpr std::int64_t kPath = 1 << 13, kEach = 48;
  std::int64_t bytes = 0;
  for (const ValueId id : frozen_values(graph)) bytes += std::ssize(graph.values[id].name.text()) + kEach;
  return Bytes{bytes == 0 ? 0 : bytes + kPath};
}

std::vector<TensorSpec> specs_of(const Graph& graph, const std::vector<ValueId>& values, std::int64_t frozen_bytes) {
  std::vector<TensorSpec> specs;
  if (frozen_bytes > 0) specs.push_back({kFrozen, DType::u8, Shape{frozen_bytes}});
  for (const ValueId id : values)
    specs.push_back({graph.values[id].name, graph.values[id].type.dtype, graph.values[id].type.shape});
  return specs;
}

void check_counters(const SafetensorsFile& file, const StoredTensor& state, std::string_view text, bool has_checksums) {
  if (has_checksums && !file.has_checksums())
    throw corrupt(file.path(), "its counters speak of checksums and its header has none");
  Hasher hasher;
  compare(file, state, hasher.add(std::as_bytes(std::span(text))));
}

Progress parse(const SafetensorsFile& file) {
  constexpr std::int64_t kMostBytes = 1 << 16;
  const StoredTensor* state = file.find(kCounters);
  if (state == nullptr || state->bytes > kMostBytes) {
    throw data_error("E-CKPT-FORMAT", file.path(), "it holds no counters of a run", "a checkpoint that plimsoll train wrote");
  }
  std::string text(static_cast<std::size_t>(state->bytes), '\0');
  file.read_into(*state, std::as_writable_bytes(std::span(text)));
  try {
    const nlohmann::json object = parse_json(text, {.bytes = kMostBytes});
    Progress progress = progress_from(object);
    check_counters(file, *state, text, object.contains(kChecksums));
    return progress;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (file.has_checksums()) check_counters(file, *state, text, true);
    throw data_error("E-CKPT-FORMAT", file.path(), fmt::format("its counters are broken: {}", error.what()),
                     "a checkpoint that plimsoll train wrote");
  }
}

// The hash of the length and the table in front of the tensors.
std::string header_hash(const SafetensorsFile& state) {
  const File file = File::open(state.path());
  const std::int64_t end = state.tensors().empty() ? file.size() : state.tensors().front().offset;
  std::string header(static_cast<std::size_t>(end), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(header)));
  Hasher hasher;
  return hasher.add(std::as_bytes(std::span(header))).hex();
}

ManifestFile entry_of(const std::filesystem::path& path) {
  return {path.filename().string(), file_bytes(path), header_hash(SafetensorsFile::open(path))};
}

// A checkpoint: its counters, and the files of its tensors. Those of one process are whole, in one file.
struct Opened {
  Progress progress;
  std::vector<SafetensorsFile> files;
  std::vector<Piece> pieces = {};

  const SafetensorsFile& first() const { return files.front(); }
};

SafetensorsFile open_state(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw data_error("E-CKPT-MISSING", path.string(), "there is no checkpoint", "a run that was saved or interrupted",
                     {Remedy::of_command("train CONFIG", {{"command.run", "ANOTHER_FOLDER"}})});
  }
  try {
    return SafetensorsFile::open(path);
  } catch (const Error& error) {
    if (error.code != "E-FORMAT-SAFETENSORS") throw;
    throw corrupt(path, error.message);
  }
}

Manifest manifest_of(const std::filesystem::path& folder) {
  try {
    return read_manifest(folder);
  } catch (Error& error) {
    error.remedies = {begin_anew(folder / kManifestFile)};
    throw;
  }
}

Opened open(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(checkpoint, ignored)) {
    SafetensorsFile file = open_state(checkpoint);
    Progress progress = parse(file);
    Opened opened{std::move(progress), {}};
    opened.files.push_back(std::move(file));
    return opened;
  }
  Manifest manifest = manifest_of(checkpoint);
  Opened opened{std::move(manifest.progress), {}, std::move(manifest.pieces)};
  for (const ManifestFile& entry : manifest.files) {
    const std::filesystem::path path = checkpoint / entry.name;
    if (!is_there(path)) throw corrupt(path, "it is missing");
    if (file_bytes(path) != entry.bytes) {
      throw corrupt(path, fmt::format("it has {} bytes and was saved with {}", file_bytes(path).n, entry.bytes.n));
    }
    SafetensorsFile state = open_state(path);
    if (header_hash(state) != entry.header_xxh128 || !state.has_checksums())
      throw corrupt(path, "its header is not as it was saved");
    opened.files.push_back(std::move(state));
  }
  return opened;
}

// The elements of a tensor that this rank holds.
struct Held {
  std::int64_t begin, end;
};
Held held_elements(const Value& value) {
  return value.shard ? Held{value.shard->begin, value.shard->end} : Held{0, value.type.shape.elements()};
}

// The values that a rank saves: the first has the parameters that are whole on all ranks.
std::vector<ValueId> values_of_rank(const Graph& graph, int rank) {
  std::vector<ValueId> values = saved_values(graph);
  std::erase_if(values, [&](ValueId id) { return rank > 0 && graph.values[id].parameter && !graph.values[id].shard; });
  return values;
}

// The part of a rank in the manifest, as text for the rank that writes it.
std::string text_of_rank(const ManifestFile& entry, const Graph& graph, const std::vector<ValueId>& values) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const ValueId id : values) {
    const Held held = held_elements(graph.values[id]);
    pieces.push_back({graph.values[id].name.text(), held.begin, held.end});
  }
  return nlohmann::json{entry.name, entry.bytes.n, entry.header_xxh128, pieces}.dump();
}

void add_rank(Manifest& manifest, const std::string& text) {
  const nlohmann::json part = nlohmann::json::parse(text);
  for (const nlohmann::json& piece : part.at(3)) {
    manifest.pieces.push_back({manifest.files.size(), piece.at(0), piece.at(1), piece.at(2)});
  }
  manifest.files.push_back({part.at(0), Bytes{part.at(1).get<std::int64_t>()}, part.at(2)});
}

}  // namespace

FrozenWeights frozen_weights(const Graph& graph, const WeightSource& source, const Executor& executor) {
  return {source, hashes_of(frozen_values(graph), executor)};
}

namespace {

void refuse_link(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_symlink(folder, ignored)) return;
  throw data_error("E-IO-WRITE", folder.string(), "it is a link, not a folder", "a folder of the run itself");
}

void write_state(const std::filesystem::path& path, const Graph& graph, const std::vector<ValueId>& values,
                 const std::string& of_frozen, const Executor& executor) {
  SafetensorsWriter writer(path, specs_of(graph, values, std::ssize(of_frozen)), Checksums::each);
  if (!of_frozen.empty()) writer.append(kFrozen, std::as_bytes(std::span(of_frozen)));
  for (const ValueId id : values) {
    executor.read_own(id, [&](std::span<const std::byte> part) { writer.append(graph.values[id].name.text(), part); });
  }
  writer.commit();
}

// Each rank writes a file. The manifest comes last, and the folder appears only if all of them could write.
void save_with_ranks(const Graph& graph, const Progress& progress, const FrozenWeights& frozen,
                     const std::filesystem::path& folder, const Executor& executor) {
  Peers& peers = *executor.peers();
  const std::uint32_t event = executor.spare_event();
  std::optional<AtomicFolder> aside;
  std::string path, mine;
  together(peers, event, [&] {
    if (peers.rank() > 0) return;
    refuse_link(folder);
    path = aside.emplace(folder).path().string();
  });
  path = broadcast(peers, event, 0, path);
  together(peers, event, [&] {
    const std::filesystem::path file = std::filesystem::path(path) / state_file_name(peers.rank());
    const std::vector<ValueId> values = values_of_rank(graph, peers.rank());
    write_state(file, graph, values, peers.rank() == 0 ? frozen_text(graph, frozen) : std::string(), executor);
    mine = text_of_rank(entry_of(file), graph, values);
  });
  Manifest manifest{progress, {}, peers.count()};
  for (int rank = 0; rank < peers.count(); ++rank) add_rank(manifest, broadcast(peers, event, rank, mine));
  together(peers, event, [&] {
    if (peers.rank() > 0) return;
    write_file_atomically(aside->path() / kManifestFile, manifest_text(manifest));
    aside->commit();
  });
}

}  // namespace

void save_checkpoint(const Graph& graph, const Progress& progress, const FrozenWeights& frozen,
                     const std::filesystem::path& folder, const Executor& executor) {
  if (executor.peers() != nullptr) return save_with_ranks(graph, progress, frozen, folder, executor);
  refuse_link(folder);
  AtomicFolder aside(folder);
  const std::filesystem::path state = aside.path() / kStateFile;
  write_state(state, graph, saved_values(graph), frozen_text(graph, frozen), executor);
  write_file_atomically(aside.path() / kManifestFile, manifest_text({progress, {entry_of(state)}}));
  aside.commit();
}

Bytes checkpoint_bytes(const Graph& graph) {
  return safetensors_bytes(specs_of(graph, saved_values(graph), frozen_bytes(graph).n), Checksums::each) + kMostManifest;
}

Progress read_progress(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  if (std::filesystem::is_directory(checkpoint, ignored)) return manifest_of(checkpoint).progress;
  return parse(open_state(checkpoint));
}

std::filesystem::path state_file(const std::filesystem::path& checkpoint) {
  std::error_code ignored;
  return std::filesystem::is_directory(checkpoint, ignored) ? checkpoint / kStateFile : checkpoint;
}

void read_back(const std::filesystem::path& folder) {
  const Opened opened = open(folder);
  for (const SafetensorsFile& file : opened.files) {
    PastCache reader(file.path(), kReadBack);
    for (const StoredTensor& tensor : file.tensors()) {
      Hasher hasher;
      reader.read(tensor.offset, tensor.bytes, [&](std::span<const std::byte> part) { hasher.add(part); });
      compare(file, tensor, hasher);
    }
  }
}

namespace {

// The checkpoint's entry for the frozen parameters. It must name all of the graph's, and no others.
FrozenWeights parse_frozen(const Graph& graph, const SafetensorsFile& file) {
  const std::vector<ValueId> values = frozen_values(graph);
  const StoredTensor* stored = file.find(kFrozen);
  const auto other = [&](const std::string& what) {
    return data_error("E-CKPT-FORMAT", file.path(), what, "a checkpoint of this model and optimizer");
  };
  if (stored == nullptr && values.empty()) return {};
  if (stored == nullptr || values.empty())
    throw other(fmt::format("{} parameters are frozen in this run, and {} in that of the checkpoint",
                            values.empty() ? "no" : "some", stored == nullptr ? "none" : "some"));
  if (stored->bytes > frozen_bytes(graph).n) throw other("its frozen parameters are others");
  std::string text(static_cast<std::size_t>(stored->bytes), '\0');
  file.read_into(*stored, std::as_writable_bytes(std::span(text)));
  Hasher hasher;
  compare(file, *stored, hasher.add(std::as_bytes(std::span(text))));
  try {
    const nlohmann::json object = parse_json(text, {.bytes = std::ssize(text)});
    const nlohmann::json& hashes = object.at("hashes");
    FrozenWeights frozen{{object.value("folder", std::string()), object.at("seed").get<std::uint64_t>()}, {}};
    if (hashes.size() != values.size()) throw std::out_of_range(fmt::format("it has {} frozen parameters", hashes.size()));
    for (const ValueId id : values) frozen.hashes.push_back(hashes.at(graph.values[id].name.text()).get<std::string>());
    return frozen;
  } catch (const std::exception& error) {
    throw other(fmt::format("its frozen parameters are others: {}", error.what()));
  }
}

std::string shown(const WeightSource& source) {
  return source.folder.empty() ? fmt::format("random numbers under the seed {}", source.seed) : source.folder.string();
}

// The remedies for an existing source with other numbers. `before`: the folder of the run's own source.
Remedies remedies_of(const SafetensorsFile& file, const WeightSource& now, const std::filesystem::path& before) {
  if (whole_path(now.folder) == whole_path(before)) return {begin_anew(file.path())};
  Remedies remedies;
  if (before.empty() || is_there(before)) {
    remedies.push_back(resume(file.path(), before.empty() ? "random" : before.string()));
  }
  const std::string init = now.folder.empty() ? "random" : whole_path(now.folder);
  remedies.push_back(begin_anew(file.path(), {{"model.init", init}}));
  return remedies;
}

Error changed(const SafetensorsFile& file, const WeightSource& source, const std::string& what, Remedies remedies) {
  return data_error("E-CKPT-FROZEN", file.path(), fmt::format("frozen parameters come from {}: {}", shown(source), what),
                    "the bytes with which the run began, which a checkpoint does not hold", std::move(remedies));
}

// Fills the frozen parameters from their source and compares their hashes.
void load_frozen(const Graph& graph, const SafetensorsFile& file, const FrozenWeights& frozen, const WeightSource& source,
                 Executor& executor) {
  const std::vector<ValueId> values = frozen_values(graph);
  if (values.empty()) return;
  try {
    fill_parameters(graph, source, executor, Parameters::frozen);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal || source.folder.empty() || error.code == "E-FORMAT-NAN") throw;
    throw changed(file, source, error.message, {resume(file.path(), "FOLDER", "where it lies now")});
  }
  const std::vector<std::string> now = hashes_of(values, executor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (now[i] == frozen.hashes[i]) continue;
    throw changed(file, source,
                  fmt::format("{} has the hash {} and had {}", graph.values[values[i]].name.text(), now[i], frozen.hashes[i]),
                  remedies_of(file, source, frozen.source.folder));
  }
}

// Checks that a folder other than the recorded one has the weights with which the run began.
void compare_moved(const Graph& graph, const SafetensorsFile& file, const Origin& origin, const WeightSource& source,
                   Executor& executor) {
  const std::filesystem::path& folder = source.folder;
  const bool gone = !folder.empty() && !is_there(folder / "config.json") && !(is_gguf(folder) && is_there(folder));
  if (origin.model.empty() || whole_path(folder) == origin.init || gone) return;
  Hasher hasher;
  fill_parameters(graph, source, executor, Parameters::model, &hasher);
  if (hasher.hex() == origin.weights) return;
  const std::filesystem::path run = run_of(file.path());
  throw config_error("E-RESUME", run.string(),
                     fmt::format("model.init is {}, and the run began with other weights, of {}", shown(source),
                                 shown({origin.init, source.seed})),
                     "the weights with which it began, in any place", remedies_of(file, source, origin.init));
}

bool trains_model(const Graph& graph) {
  return std::ranges::any_of(graph.parameters(),
                             [&](ValueId id) { return !graph.values[id].parameter->adapter && !is_frozen(graph.values[id]); });
}

// The pieces of a value; a file of one process has it whole.
std::vector<Piece> pieces_of(const Opened& opened, const Value& value) {
  const std::string& name = value.name.text();
  std::vector<Piece> pieces;
  std::ranges::copy_if(opened.pieces, std::back_inserter(pieces), [&](const Piece& piece) { return piece.tensor == name; });
  const Shape& whole = value.shard ? value.shard->whole : value.type.shape;
  const StoredTensor* stored = opened.first().find(name);
  // Parts have no shape of their own.
  const bool in_one = pieces.size() == 1 && pieces[0].end - pieces[0].begin == whole.elements();
  const bool other = stored != nullptr && (opened.pieces.empty() || (value.parameter && in_one)) && stored->shape != whole;
  if (opened.pieces.empty() && stored != nullptr) pieces.push_back({0, name, 0, whole.elements()});
  if (pieces.empty() || other) {
    throw data_error("E-CKPT-FORMAT", opened.first().path(), fmt::format("{} is missing or of another type", name),
                     "a checkpoint of this model and optimizer");
  }
  return pieces;
}

// Loads a value to its tier. Moments of an optimizer may be infinite; parameters may not.
void load_saved(const Opened& opened, ValueId id, const Value& value, Executor& executor) {
  const bool whole = executor.has_copy(id);
  const Held held = whole ? Held{0, tensor_shape(value).elements()} : held_elements(value);
  PieceReader reader(opened.files, pieces_of(opened, value), value.type.dtype, held.begin, held.end, compare);
  std::int64_t done = 0;
  std::optional<std::int64_t> bad;
  const auto source = [&](std::span<std::byte> part) {
    reader.read(part);
    const auto found = bad || !value.parameter ? std::nullopt : first_not_finite(value.type.dtype, part);
    if (found) bad = done / size_of(value.type.dtype) + *found;
    done += std::ssize(part);
  };
  whole ? executor.write(id, source) : executor.write_own(id, source);
  reader.finish();
  if (bad) {
    throw not_finite(opened.first().path(), value.name.text(),
                     "holds NaN or an infinite number at " + place_text(tensor_shape(value), held.begin + *bad));
  }
}

}  // namespace

Checkpoint load_checkpoint(const Graph& graph, const std::filesystem::path& path, const std::filesystem::path& init,
                           Executor& executor) {
  Opened opened = open(path);
  const SafetensorsFile& file = opened.first();
  Progress progress = std::move(opened.progress);
  FrozenWeights frozen = parse_frozen(graph, file);
  const auto seed = frozen.hashes.empty() ? static_cast<std::uint64_t>(progress.seed) : frozen.source.seed;
  // Without a model in the configuration the checkpoint's counts.
  const WeightSource source{init.empty() ? frozen.source.folder : init, seed};
  load_frozen(graph, file, frozen, source, executor);
  if (trains_model(graph)) compare_moved(graph, file, progress.origin, source, executor);
  frozen.source = source;
  for (const ValueId id : saved_values(graph)) {
    const Value& value = graph.values[id];
    const bool whole = opened.pieces.empty() && !value.shard;
    if (const auto other = whole ? StoredState::in_other_precision(graph, id, file) : std::nullopt) {
      for (const StoredTensor* tensor : other->tensors()) compare(file, *tensor, hash_of(file, *tensor));
      other->load(id, value, executor);
      continue;
    }
    load_saved(opened, id, value, executor);
  }
  return {std::move(progress), std::move(frozen)};
}

}  // namespace plimsoll
