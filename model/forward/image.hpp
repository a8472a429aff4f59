// The forward kernel as a KernelImage: names for its shared memory, barriers and roles. The entry is compiled apart, with instrumented
// accesses (entry.hpp): what is instrumented must share no inline function with the machine.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "attention/storage.cuh"
#include "machine/launch.hpp"

namespace tandem::model {

namespace naming {

using Kind = SharedField::Kind;

// Arrays of buffers: "k[0]", "k[1]".
inline void add_array(std::vector<SharedField>& fields, const std::string& name, std::size_t offset, std::size_t bytes, int count, Kind kind) {
  for (int i = 0; i < count; ++i)
    fields.push_back(
        {fmt::format("{}[{}]", name, i), static_cast<std::uint32_t>(offset + static_cast<std::size_t>(i) * bytes), static_cast<std::uint32_t>(bytes), kind});
}

template <int kStages>
void add_ring(std::vector<SharedField>& fields, const std::string& name, std::size_t offset) {
  using Ring = tile::Ring<kStages>;
  add_array(fields, name + ".full", offset + offsetof(Ring, full), sizeof(ptx::Barrier), kStages, Kind::barrier);
  add_array(fields, name + ".empty", offset + offsetof(Ring, empty), sizeof(ptx::Barrier), kStages, Kind::barrier);
}

template <ForwardSpec kSpec>
SharedLayout forward_layout() {
  using Storage = attention::ForwardStorage<kSpec>;
  std::vector<SharedField> fields;
  add_array(fields, "q", offsetof(Storage, q), Storage::kQBytes, kSpec.q_buffers, Kind::buffer);
  add_array(fields, "k", offsetof(Storage, k), Storage::kKBytes, kSpec.stages, Kind::buffer);
  add_array(fields, "v", offsetof(Storage, v), Storage::kVBytes, kSpec.stages, Kind::buffer);
  fields.push_back({"o", offsetof(Storage, o), sizeof(Storage::o), Kind::buffer});
  add_ring<kSpec.q_buffers>(fields, "q_ring", offsetof(Storage, q_ring));
  add_ring<kSpec.stages>(fields, "k_ring", offsetof(Storage, k_ring));
  add_ring<kSpec.stages>(fields, "v_ring", offsetof(Storage, v_ring));
  add_ring<attention::kTileSlots>(fields, "tile_ring", offsetof(Storage, tile_ring));
  add_array(fields, "tiles", offsetof(Storage, tiles), sizeof(attention::TileInfo), attention::kTileSlots, Kind::tile);
  return SharedLayout(std::move(fields));
}

inline std::vector<std::string> forward_barriers() {
  using attention::NamedBarrier;
  std::vector<std::string> names(static_cast<std::size_t>(NamedBarrier::count));
  names[0] = "block_sync";
  for (std::size_t i = 0; i < 3; ++i) {
    names[static_cast<std::size_t>(NamedBarrier::turn) + i] = fmt::format("turn[{}]", i);
    names[static_cast<std::size_t>(NamedBarrier::query_rows_free) + i] = fmt::format("query_rows_free[{}]", i);
  }
  return names;
}

inline std::string forward_role(int warp) {
  if (warp == 0) return "producer";
  if (warp < 4) return "idle warp of the producer warpgroup";
  return fmt::format("consumer warpgroup {}", warp / 4 - 1);
}

inline std::string forward_tile(const unsigned char* bytes) {
  attention::TileInfo tile;
  std::memcpy(&tile, bytes, sizeof tile);
  if (tile.end_block == attention::kNoTile) return "no more tiles";
  return fmt::format("m_block {}, head {}, batch {}, key blocks below {}", tile.m_block, tile.head, tile.batch, tile.end_block);
}

inline std::string forward_map(const void* map, const void* params) {
  const auto& p = *static_cast<const ForwardParams*>(params);
  const auto is_of = [map](const ChunkMaps& maps) { return map == &maps.whole || map == &maps.last; };
  return is_of(p.q_maps) ? "q" : is_of(p.k_maps) ? "k" : is_of(p.v_maps) ? "v" : is_of(p.out_maps) ? "out" : "an unknown tensor map";
}

}  // namespace naming

template <ForwardSpec kSpec>
KernelImage forward_image(std::string name, void (*entry)(const void* params)) {
  KernelImage image;
  image.name = std::move(name);
  image.entry = entry;
  image.threads = kSpec.threads();
  image.ctas_per_sm = kSpec.ctas_per_sm;
  image.cluster = kSpec.cluster;
  image.shared_bytes = static_cast<std::uint32_t>(sizeof(attention::ForwardStorage<kSpec>));
  image.shared = naming::forward_layout<kSpec>();
  image.named_barriers = naming::forward_barriers();
  image.role = naming::forward_role;
  image.tile = naming::forward_tile;
  image.map_name = naming::forward_map;
  return image;
}

}  // namespace tandem::model
