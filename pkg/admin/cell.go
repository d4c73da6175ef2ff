package admin

import "github.com/meshctl/meshctl/pkg/mesh"

// CellOptions change what is not nil of how clients get into a cell's cores.
type CellOptions struct {
	// Offers are the ways in, in the order of CellView; none: those by default.
	Offers *[]mesh.Offer `json:"offers,omitzero"`
	// Order is for cells with a public certificate.
	Order *mesh.CertificateOrder `json:"order,omitzero"`
	// What guests from compromised cells may use; zero: without limit.
	GuestDevices     *int   `json:"guestDevices,omitzero"` // of each member
	GuestConnections *int   `json:"guestConnections,omitzero"`
	GuestTraffic     *int64 `json:"guestTraffic,omitzero"` // bytes of each member
}

// CellReach is how connections to a cell's cores go through one entry.
type CellReach struct {
	Entry mesh.EntryID `json:"entry"`
	Name  string       `json:"name"`
	mesh.Reach
}

// CellRotateRequest gives a cell new paths.
type CellRotateRequest struct {
	Ref string `json:"ref"`
	// Overlap is for how long the old ones work; nil: as long as replaced labels.
	Overlap *mesh.Duration `json:"overlap,omitzero"`
}

// CellForecastRequest asks what would happen if a cell's state were another.
type CellForecastRequest struct {
	Ref   string         `json:"ref"`
	State mesh.CellState `json:"state"`
}

// CellForecast is what would happen.
type CellForecast struct {
	Cell    mesh.CellID    `json:"cell"`
	Name    string         `json:"name"`
	State   mesh.CellState `json:"state"`   // of now
	Devices int            `json:"devices"` // that are served there now
	Members int            `json:"members"` // whose devices these are
	// Hosts are the cells that would take devices in as guests.
	Hosts []CellHost `json:"hosts,omitzero"`
	// Stranded devices would have no cell to go to.
	Stranded int `json:"stranded"`
	// Returning devices are guests elsewhere now and would come back.
	Returning int `json:"returning"`
	// Dismissed are the guests of other cells that would lose this one.
	Dismissed int `json:"dismissed"`
}

// CellHost is a cell with the guests it would have.
type CellHost struct {
	Cell       mesh.CellID     `json:"cell"`
	Name       string          `json:"name"`
	Suffix     mesh.ServerName `json:"suffix"`
	Devices    int             `json:"devices"`
	CoresReady int             `json:"coresReady"`
}
