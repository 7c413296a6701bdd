//===- Mesh.h - Mesh of atomic axes with named views ------------*- C++ -*-===//
//
// A mesh factors the ranks once, into the common refinement of the dense grid and the grid of
// experts. Each factor is an atom: the ranks that differ on one axis of each grid. A view is an
// axis of either grid, and is a list of atoms. With tp4,etp2,ep4,dp4 (etp·ep·edp = 2·4·2):
//
//     atom    tp_etp 2   tp_ep 2   dp_ep 2   dp_edp 2      (ascending strides 1, 2, 4, 8)
//     dense   tp ───────────────   dp ───────────────
//     experts etp        ep ────────────────   edp
//
// An atom is named after its dense and its expert axis (tp_etp). Exception: an atom that is an
// entire dense axis, and whose expert axis is the counterpart (tp and etp, dp and edp, ep and ep,
// pp and pp), has the dense axis's name. Grids without experts have the atoms tp, cp, ep, dp, pp.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_MESH_H
#define TPC_SUPPORT_MESH_H

#include "tpc/Support/Grid.h"

namespace tpc {

struct MeshAtom {
  std::string name;
  int64_t size;
  int64_t stride; // rank difference between adjacent coordinates
  /// Axes of the dense grid and of the grid of experts that the atom is part of: "tp", "etp".
  std::string dense, expert;

  /// Returns true for both axes, and for the atom's name.
  bool isIn(std::string_view view) const { return view == name || view == dense || view == expert; }
  int64_t coordinate(int64_t rank) const { return rank / stride % size; }
  bool operator==(const MeshAtom &) const = default;
};

/// Returns the atoms of both grids by ascending stride. Axes of size 1 are included, except an ep
/// of the dense grid if experts have another ep. `tensorX`, `tensorY`: sizes of the atoms tpx and
/// tpy, into which a two-dimensional tp is split; 0 if tp is one axis.
///
/// Precondition: both grids have the same number of ranks. Returns nothing if they have no common
/// refinement that a program can use: experts must be split over ranks of tp, ep and dp, each
/// expert over ranks of tp, and replicas of experts must be ranks of dp.
std::optional<std::vector<MeshAtom>> makeMesh(const Grid &dense, const Grid &experts,
                                              int64_t tensorX = 0, int64_t tensorY = 0);

/// Returns the grid whose axes are the atoms.
Grid getGrid(std::span<const MeshAtom> atoms);

/// Returns the names of all views: the axes of the dense grid, then those that only experts have.
std::vector<std::string_view> getViewNames();

/// Returns the dense axes whose ranks form an axis of experts, unless experts have a grid of their
/// own: tp for etp, cp and dp for edp; none for other axes.
std::vector<std::string_view> getDenseAxes(std::string_view expertAxis);

} // namespace tpc

#endif // TPC_SUPPORT_MESH_H
