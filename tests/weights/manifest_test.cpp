#include "weights/manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

Manifest manifest() {
  Progress progress;
  progress.updates = 40, progress.samples = 320, progress.position = 330, progress.optimizer_updates = 45, progress.units = 5000;
  progress.seconds = 1.5, progress.loss = 2.25, progress.micro_batch = 4, progress.accumulation = 2, progress.seed = 3;
  progress.data_hash = "data", progress.config_hash = "config";
  progress.loss_scale.emplace();
  return {progress, {{kStateFile, Bytes{1234}, "0123"}}};
}

TEST(Manifest, ReadsWhatWasWritten) {
  const ScratchFolder folder;
  write_raw(folder / kManifestFile, manifest_text(manifest()));
  const Manifest read = read_manifest(folder.path());
  EXPECT_EQ(manifest_text(read), manifest_text(manifest()));
  EXPECT_EQ(read.progress.position, 330);
  EXPECT_EQ(read.progress.optimizer_updates, 45);
  EXPECT_EQ(read.files.front().bytes, Bytes{1234});
  const nlohmann::json object = nlohmann::json::parse(manifest_text(manifest()));
  EXPECT_EQ(object["schema"], "plimsoll.checkpoint/2");
  EXPECT_EQ(object["update"], 40);
}

TEST(Manifest, EveryFlippedBitIsNoticed) {
  const ScratchFolder folder;
  const std::string whole = manifest_text(manifest());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    write_raw(folder / kManifestFile, flipped);
    EXPECT_ERROR(read_manifest(folder.path()), "E-CKPT-CORRUPT", kManifestFile);
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, whole.size() - 1}) {
    write_raw(folder / kManifestFile, whole.substr(0, size));
    EXPECT_ERROR(read_manifest(folder.path()), "E-CKPT-CORRUPT", kManifestFile);
  }
}

TEST(Manifest, CountersThatNoRunHasAreRefused) {
  const ScratchFolder folder;
  Manifest wrong = manifest();
  wrong.progress.accumulation = 0;
  write_raw(folder / kManifestFile, manifest_text(wrong));
  EXPECT_ERROR(read_manifest(folder.path()), "E-CKPT-FORMAT", "accumulation is 0");
  wrong = manifest();
  wrong.files.front().name = "../state.safetensors";
  write_raw(folder / kManifestFile, manifest_text(wrong));
  EXPECT_ERROR(read_manifest(folder.path()), "E-CKPT-FORMAT", "a path");
}

}  // namespace
}  // namespace plimsoll
