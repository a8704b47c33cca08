"""One page with every kind of control: menus, tabs, sliders, nested scroll areas, dialogs."""
