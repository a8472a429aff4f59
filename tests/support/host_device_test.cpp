#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/device.hpp"
#include "support/tensor.hpp"

namespace tandem::testing {
namespace {

TEST(HostDevice, MemoryStartsAsPoisonAndKeepsWhatIsUploaded) {
  const auto device = make_host_device();
  const DeviceBuffer buffer(*device, 100);
  std::byte bytes[100];
  device->download(bytes, buffer.data(), sizeof bytes);
  for (const std::byte byte : bytes) ASSERT_EQ(byte, kPoison);
  std::memset(bytes, 7, sizeof bytes);
  device->upload(buffer.data(), bytes, sizeof bytes);
  std::byte back[100];
  device->download(back, buffer.data(), sizeof back);
  EXPECT_EQ(std::memcmp(bytes, back, sizeof bytes), 0);
}

TEST(HostDevice, AWriteJustOutsideIsReported) {
  for (const std::ptrdiff_t offset : {std::ptrdiff_t{-1}, std::ptrdiff_t{100}}) {
    EXPECT_NONFATAL_FAILURE(
        {
          const auto device = make_host_device();
          const DeviceBuffer buffer(*device, 100);
          static_cast<char*>(buffer.data())[offset] = 0;
        },
        "was written");
  }
}

TEST(HostDevice, EmptyAllocationsAreLegal) {
  const auto device = make_host_device();
  const DeviceBuffer buffer(*device, 0);
  EXPECT_NE(buffer.data(), nullptr);
}

TEST(HostDeviceDeathTest, AReadFarPastTheEndFaults) {
  EXPECT_DEATH(
      {
        const auto device = make_host_device();
        const DeviceBuffer buffer(*device, 100);
        const volatile char byte = static_cast<volatile char*>(buffer.data())[112];
        (void)byte;
      },
      "");
}

}  // namespace
}  // namespace tandem::testing
