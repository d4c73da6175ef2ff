package backup

// readme is the README.md of every backup. A change to it is a commit for every
// mesh, so it says only what stays.
const readme = `# Backup of a mesh

meshctl writes this repository. It is the memory of one mesh: who takes part,
which devices, cells, cores and entries there are, what was revoked, and who
changed what. From it alone, with the identity of one of its recipients and the
passphrase of the root, the mesh comes back.

- ` + "`git log`" + ` says who changed which objects; ` + "`git diff`" + ` how, as far as it is public.
- ` + "`manifest.yaml`" + ` says of which moment this is, with a digest, there or in ` + "`index/`" + `,
  of every file. ` + "`manifest.sig`" + ` is its signature by a server of the mesh, up to
  ` + "`root.crt`" + `. Compare the SHA-256 of that certificate with the one you wrote down
  when the mesh was founded, and believe nothing here if it differs.
- ` + "`<folder>/…/<id>.yaml`" + ` is what anybody may see of an object.
- ` + "`<folder>/…/<id>.age`" + ` is the rest: names, addresses and secrets, encrypted with
  [age](https://age-encryption.org) to those in ` + "`recipients/`" + `. ` + "`age -d -i KEY FILE | zcat -f`" + ` reads one.
- ` + "`recipients/<name>.age`" + ` is an identity under a passphrase: ` + "`age -d`" + ` opens it.
- ` + "`keys.age`" + ` is the data key, which opens the sealed values inside, and the sealed
  key of the root.
- ` + "`audit/`" + ` is the audit log, one JSON record a line, encrypted in the same way.

To bring the mesh back on new servers:

    meshctl mgmt restore --from REPOSITORY --identity KEY --root SHA256

To look around in it:

    meshctl admin backup log
    meshctl admin backup diff COMMIT

Files of your own beside these are left alone. Do not change these: what was
changed by hand is not restored, and the next backup puts it back.
`
