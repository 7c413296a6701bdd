/*===- NoDevice.c - Driver stub without devices, for the real cuDNN -------===*/
/*
 * cuDNN plans for a device that a text describes, but needs a driver library. It "loads" kernels
 * that it has compiled, and launches nothing. Its compiler (NVRTC) requests a private table of the
 * driver. It continues if the request fails, but crashes if the function for it is missing.
 */

enum { success = 0, notSupported = 801 };

int cuGetExportTable(void) { return notSupported; }
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return success;
}
int cuLibraryLoadData(void **library) {
  *library = (void *)1;
  return success;
}
int cuLibraryGetKernel(void **kernel) {
  *kernel = (void *)1;
  return success;
}
int cuLibraryGetModule(void **module) {
  *module = (void *)1;
  return success;
}
int cuKernelGetFunction(void **function) {
  *function = (void *)1;
  return success;
}

#define NOTHING(name)                                                                              \
  int name(void) { return success; }
NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString)
NOTHING(cuInit)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetCount)
NOTHING(cuKernelGetAttribute)
NOTHING(cuKernelSetAttribute)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuLibraryUnload)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkDestroy)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)
